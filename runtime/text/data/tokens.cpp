// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/data/tokens.h"

#include <algorithm>

#include "runtime/text/data/empty_thought.h"
#include "runtime/text/data/lines.h"

namespace mebp::text {

namespace {

using Ids = std::vector<int32_t>;

bool beginsWith(const Ids &ids, const Ids &before) {
  return ids.size() >= before.size() && std::equal(before.begin(), before.end(), ids.begin());
}

class Writer {
public:
  Writer(const TokenSource &source, LossOn lossOn, Tokens &out) : source(source), lossOn(lossOn), out(out) {
    out.bounds.push_back(0);
  }

  Status add(const Sample &sample) {
    switch (sample.form) {
    case Form::Text:
      return addText(sample.text);
    case Form::Completion:
      return addCompletion(sample);
    case Form::Messages:
      return addTurns(sample.turns);
    }
    return Status();
  }

private:
  // With what the model wants before it, where it has not got that already.
  Status begun(const std::string &text, Ids &ids) const {
    ids.clear();
    if (Status status = source.encode(text, ids); !status.ok())
      return status;
    const Ids &before = source.marks().before;
    if (!beginsWith(ids, before))
      ids.insert(ids.begin(), before.begin(), before.end());
    return Status();
  }

  // An end between documents, as they are trained on as one; none where the text has it.
  Status addText(const std::string &text) {
    if (text.empty())
      return Status();
    Ids ids;
    if (Status status = begun(text, ids); !status.ok())
      return status;
    if (const int32_t end = source.marks().endOfText; ids.empty() || ids.back() != end)
      ids.push_back(end);
    for (int32_t id : ids)
      if (Status status = out.store.append(id, true); !status.ok())
        return status;
    out.bounds.back() = out.store.size();
    return Status();
  }

  // The completion and an end count.
  Status addCompletion(const Sample &sample) {
    const size_t empty = endOfEmptyThought(sample.text);
    const std::string begin = sample.prompt + sample.text.substr(0, empty), rest = sample.text.substr(empty);
    Ids prompt, whole;
    if (Status status = begun(begin, prompt); !status.ok())
      return status;
    if (Status status = begun(begin + rest, whole); !status.ok())
      return status;
    if (!beginsWith(whole, prompt)) { // a token reaches over the border, where a prompt alone never has it
      whole = prompt;
      if (Status status = source.encode(rest, whole); !status.ok())
        return status;
    }
    const TextMarks &marks = source.marks();
    if (whole.size() == prompt.size() ||
        std::find(marks.stops.begin(), marks.stops.end(), whole.back()) == marks.stops.end())
      whole.push_back(marks.endOfSequence);
    std::vector<bool> counts(whole.size(), true);
    Ids alone = prompt;
    size_t first = 0; // from here to the prompt's end nothing counts
    if (lossOn == LossOn::All && empty)
      if (Status status = begun(sample.prompt, alone); !status.ok())
        return status;
    if (lossOn == LossOn::All)
      first = alone.size();
    for (size_t i = first; i < prompt.size(); ++i)
      counts[i] = false;
    return append(whole, counts);
  }

  Status addTurns(std::vector<Turn> turns) {
    std::vector<size_t> answers;
    for (size_t i = 0; i < turns.size(); ++i)
      if (turns[i].role == "assistant")
        answers.push_back(i);
    if (lossOn == LossOn::Assistant || lossOn == LossOn::All)
      return addComposed(turns);
    const std::vector<Turn> given = turns;
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool isChosen = lossOn == LossOn::Turns || i + 1 == answers.size();
      if (!isChosen || !given[answers[i]].isLearned)
        continue;
      turns = given;
      if (lossOn == LossOn::Turns)
        turns.resize(answers[i] + 1);
      for (size_t other : answers)
        if (other < turns.size() && other != answers[i])
          turns[other].isLearned = false;
      if (Status status = addComposed(turns); !status.ok())
        return status;
    }
    return Status();
  }

  Status addComposed(const std::vector<Turn> &turns) {
    Ids ids;
    std::vector<bool> counts;
    if (Status status = source.compose(turns, lossOn == LossOn::All, ids, counts); !status.ok())
      return status;
    return append(ids, counts);
  }

  Status append(const Ids &ids, const std::vector<bool> &counts) {
    for (size_t i = 0; i < ids.size(); ++i)
      if (Status status = out.store.append(ids[i], counts[i]); !status.ok())
        return status;
    out.bounds.push_back(out.store.size());
    return Status();
  }

  const TokenSource &source;
  LossOn lossOn;
  Tokens &out;
};

// Refuses --loss-on where it has nothing to act on.
Status checkLossOn(const std::string &path, Form form, LossOn lossOn) {
  if (lossOn == LossOn::Assistant || form == Form::Messages)
    return Status();
  if (form == Form::Text)
    return failure(MEBP_INVALID_ARGUMENT, "%s has no answers: it is text, all of which counts; leave --loss-on out",
                   path.c_str());
  if (lossOn == LossOn::All)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "%s has no turns to choose from; give --loss-on all, or leave it out",
                 path.c_str());
}

} // namespace

Result<Tokens> readTokens(const std::string &path, const TokenSource &source, LossOn lossOn,
                          const std::string &folder) {
  Lines lines;
  if (Status status = lines.open(path); !status.ok())
    return status;
  Tokens found;
  found.store = TokenStore(folder);
  found.lossOn = lossOn;
  Writer writer(source, lossOn, found);
  std::string line, first;
  while (true) {
    Result<bool> isThere = lines.next(line);
    if (!isThere.ok())
      return isThere.status();
    if (!*isThere)
      break;
    const std::string place = lines.place();
    Result<JsonValue> entry = parseJsonValue(line);
    if (!entry.ok())
      return entry.status().in(place);
    Result<Sample> sample = readSample(*entry, place);
    if (!sample.ok())
      return sample.status();
    if (first.empty()) {
      first = place;
      found.form = sample->form;
      if (Status status = checkLossOn(path, found.form, lossOn); !status.ok())
        return status;
    } else if (sample->form != found.form) {
      return failure(MEBP_INVALID_ARGUMENT, "%s: has %s where %s has %s; use one form for all samples", place.c_str(),
                     nameOf(sample->form), first.c_str(), nameOf(found.form));
    }
    ++found.seen;
    const size_t before = found.bounds.size();
    if (sample->isLearned)
      if (Status status = writer.add(*sample); !status.ok())
        return status.in(place);
    found.leftOut += found.form == Form::Text ? !sample->isLearned : found.bounds.size() == before;
  }
  if (first.empty())
    return failure(MEBP_INVALID_ARGUMENT, "%s: has no samples; give another file", path.c_str());
  if (found.leftOut == found.seen)
    return failure(MEBP_INVALID_ARGUMENT, "%s: every sample is marked as not to be learned; mark some with 1",
                   path.c_str());
  return found;
}

} // namespace mebp::text
