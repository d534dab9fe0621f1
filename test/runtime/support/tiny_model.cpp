// SPDX-License-Identifier: Apache-2.0
#include "tiny_model.h"

#include <cmath>
#include <limits>

#include "format/random.h"
#include "format/storage.h"
#include "program_builder.h"

namespace mebp::test {

using format::Loop;

static constexpr uint32_t allTokens = tinyBatch * tinySequence;
static const std::vector<float> frequencies = {1.0f, 0.3f};
static constexpr double alpha = 2;

static std::vector<AttributeValue> rope(bool inverse) {
  return {{"head_dim", tinyHidden}, {"frequencies", 0, frequencies}, {"inverse", inverse ? 1.0 : 0.0}};
}

static format::Program embedForward() {
  ProgramBuilder b("embed.forward", allTokens);
  uint32_t ids = b.idsInput();
  uint32_t w = b.parameter("table", tinyVocabulary, tinyHidden);
  b.kernel("embedding", {ids, w}, {b.flowOutput(tinyHidden)});
  return b.program;
}

static format::Program layerForward(const TinyOptions &options) {
  ProgramBuilder b("layer.forward", allTokens);
  uint32_t x = b.flowInput(tinyHidden);
  std::vector<int64_t> position = {x};
  if (options.packs)
    position.push_back(b.startsInput());
  uint32_t w = b.parameter("weight", tinyHidden, tinyHidden, options.storage);
  uint32_t a = b.parameter("lora_A", tinyRank, tinyHidden), bMatrix = b.parameter("lora_B", tinyHidden, tinyRank);
  uint32_t y = b.flowOutput(tinyHidden);
  if (!options.chunk) {
    uint32_t turned = b.tokens(tinyHidden), base = b.tokens(tinyHidden), h = b.tokens(tinyRank);
    b.kernel("rope", position, {turned}, rope(false));
    b.kernel("linear", {turned, w, -1, turned}, {base});
    b.kernel("linear", {turned, a}, {h});
    b.kernel("linear", {h, bMatrix, -1, base}, {y}, {{"alpha", alpha}});
    return b.program;
  }
  uint32_t empty = b.aliasOf(y);
  if (!options.inPlace)
    b.kernel("fill", {}, {empty});
  uint32_t whole = b.beginLoop(Loop::SEQUENCE, options.chunk, {empty})[0];
  uint64_t rows = std::min(options.chunk, tinySequence);
  for (int64_t &value : position)
    value = b.slice(static_cast<uint32_t>(value), 0, rows);
  uint32_t turned = b.loopRows(0, rows, tinyHidden);
  uint32_t base = b.loopRows(0, rows, tinyHidden), h = b.loopRows(0, rows, tinyRank);
  uint32_t out = b.loopRows(0, rows, tinyHidden);
  b.kernel("rope", position, {turned}, rope(false));
  b.kernel("linear", {turned, w, -1, turned}, {base});
  b.kernel("linear", {turned, a}, {h});
  b.kernel("linear", {h, bMatrix, -1, base}, {out}, {{"alpha", alpha}});
  b.endLoop({b.update(whole, out, 0)}, {y});
  return b.program;
}

static format::Program layerBackward(const TinyOptions &options) {
  ProgramBuilder b("layer.backward", allTokens);
  uint32_t x = b.flowInput(tinyHidden), dy = b.cotangentInput(tinyHidden);
  uint32_t starts = options.packs ? b.startsInput() : 0;
  uint32_t w = b.parameter("weight", tinyHidden, tinyHidden, options.storage);
  uint32_t a = b.parameter("lora_A", tinyRank, tinyHidden), bMatrix = b.parameter("lora_B", tinyHidden, tinyRank);
  uint32_t dx = b.cotangentOutput(tinyHidden);
  uint32_t da = b.gradient("lora_A", tinyRank, tinyHidden);
  uint32_t db = b.gradient("lora_B", tinyHidden, tinyRank);
  bool chunked = options.chunk > 0;
  uint64_t rows = std::min(options.chunk, tinySequence);
  auto temporary = [&](uint64_t columns) { return chunked ? b.loopRows(0, rows, columns) : b.tokens(columns); };

  std::vector<uint32_t> carried;
  uint32_t xPart = x, dyPart = dy;
  if (chunked) {
    std::vector<uint32_t> initial = {b.aliasOf(dx), b.aliasOf(da), b.aliasOf(db)};
    for (uint32_t value : initial)
      if (value != initial[0] || !options.inPlace)
        b.kernel("fill", {}, {value});
    carried = b.beginLoop(Loop::SEQUENCE_REVERSED, options.chunk, initial);
    xPart = b.slice(x, 0, rows);
    dyPart = b.slice(dy, 0, rows);
    starts = options.packs ? b.slice(starts, 0, rows) : 0;
  }
  auto withStarts = [&](uint32_t value) {
    return options.packs ? std::vector<int64_t>{value, starts} : std::vector<int64_t>{value};
  };
  uint32_t turned = temporary(tinyHidden), h = temporary(tinyRank), dh = temporary(tinyRank);
  uint32_t base = temporary(tinyHidden), sum = temporary(tinyHidden);
  uint32_t dxPart = chunked ? temporary(tinyHidden) : dx;
  uint32_t daPart = chunked ? b.inPlaceOf(da) : da, dbPart = chunked ? b.inPlaceOf(db) : db;
  b.kernel("rope", withStarts(xPart), {turned}, rope(false));
  b.kernel("linear", {turned, a}, {h});
  b.kernel("linear_weight_gradient", {dyPart, h, chunked ? int64_t(carried[2]) : -1}, {dbPart}, {{"alpha", alpha}});
  b.kernel("linear_input_gradient", {dyPart, bMatrix}, {dh}, {{"alpha", alpha}});
  b.kernel("linear_weight_gradient", {dh, turned, chunked ? int64_t(carried[1]) : -1}, {daPart});
  b.kernel("linear_input_gradient", {dyPart, w, dyPart}, {base});
  b.kernel("linear_input_gradient", {dh, a, base}, {sum});
  b.kernel("rope", withStarts(sum), {dxPart}, rope(true));
  if (chunked)
    b.endLoop({b.update(carried[0], dxPart, 0), daPart, dbPart}, {dx, da, db});
  return b.program;
}

// Tiled by 3 tokens and 4 vocabulary rows, neither of which divides. Without `gradient` log-probabilities alone.
static format::Program headObjective(const TinyOptions &options, bool gradient) {
  constexpr uint32_t tokenTile = 3, vocabularyTile = 4;
  ProgramBuilder b(gradient ? "head.objective" : "head.log_probabilities", allTokens);
  uint32_t x = b.flowInput(tinyHidden), labels = b.labelsInput();
  uint32_t coefficients = gradient ? b.coefficientsInput() : 0;
  uint32_t w = b.parameter("table", tinyVocabulary, tinyHidden);
  std::vector<uint32_t> results = {b.logProbabilitiesOutput(), b.entropyOutput()}, initial;
  if (gradient)
    results.push_back(b.cotangentOutput(tinyHidden));
  for (uint32_t value : results) {
    initial.push_back(b.aliasOf(value));
    if (value != results.back() || !gradient || !options.inPlace)
      b.kernel("fill", {}, {initial.back()});
  }
  std::vector<uint32_t> outer = b.beginLoop(Loop::TOKEN_ROWS, tokenTile, initial);
  uint32_t xPart = b.slice(x, 0, tokenTile), labelPart = b.slice(labels, 0, tokenTile);
  std::vector<uint32_t> start;
  for (int i = 0; i < 4; ++i) {
    start.push_back(b.loopRows(0, tokenTile, 1));
    b.kernel("fill", {}, {start.back()}, {{"value", i == 0 ? -std::numeric_limits<double>::infinity() : 0.0}});
  }
  if (gradient) {
    start.push_back(b.loopRows(0, tokenTile, tinyHidden));
    b.kernel("fill", {}, {start.back()});
  }
  std::vector<uint32_t> inner = b.beginLoop(Loop::WEIGHT_ROWS, vocabularyTile, start, w);
  uint32_t tile = b.slice(w, 1, vocabularyTile);
  uint32_t logits = b.loopRows(0, tokenTile, vocabularyTile), p = b.inPlaceOf(logits);
  b.columnsOfLoop(logits, 1);
  b.columnsOfLoop(p, 1);
  b.kernel("linear", {xPart, tile}, {logits});
  std::vector<int64_t> operands = {logits, labelPart}, tiled = {p};
  std::vector<uint32_t> yielded, after;
  for (uint32_t value : inner) {
    operands.push_back(value);
    yielded.push_back(b.inPlaceOf(value));
    tiled.push_back(yielded.back());
    after.push_back(b.inPlaceOf(value));
  }
  b.kernel("log_probability_tile", operands, tiled);
  if (gradient) {
    uint32_t added = b.inPlaceOf(yielded[4]);
    b.kernel("linear_input_gradient", {p, tile, yielded[4]}, {added});
    yielded[4] = added;
  }
  b.endLoop(yielded, after);
  std::vector<int64_t> statistics = {labelPart, after[0], after[1], after[2], after[3]};
  std::vector<int64_t> parts = {b.loopRows(0, tokenTile, 1), b.loopRows(0, tokenTile, 1)};
  if (gradient) {
    for (uint32_t value : {b.slice(coefficients, 0, tokenTile), after[4], w})
      statistics.push_back(value);
    parts.push_back(b.inPlaceOf(after[4]));
  }
  b.kernel("log_probability_from_tiles", statistics, parts);
  std::vector<uint32_t> updated;
  for (size_t i = 0; i < parts.size(); ++i)
    updated.push_back(b.update(outer[i], static_cast<uint32_t>(parts[i]), 0));
  b.endLoop(updated, results);
  return b.program;
}

static format::Program headLogits(uint32_t rows) {
  ProgramBuilder b("head.logits", rows);
  uint32_t x = b.flowInput(tinyHidden), w = b.parameter("table", tinyVocabulary, tinyHidden);
  b.kernel("linear", {x, w}, {b.logitsOutput(tinyVocabulary)});
  return b.program;
}

static format::Block *addBlock(format::Bundle &bundle, const std::string &name, format::Block::Kind kind) {
  format::Block *block = bundle.add_blocks();
  block->set_name(name);
  block->set_kind(kind);
  return block;
}

static void addProgram(format::Block *block, const char *name, uint32_t number) {
  format::BlockProgram *program = block->add_programs();
  program->set_name(name);
  program->set_program(number);
}

static format::Parameter *addParameter(format::Block *block, const char *name) {
  format::Parameter *parameter = block->add_parameters();
  parameter->set_name(name);
  return parameter;
}

static uint64_t takeBytes(format::Bundle &bundle, uint64_t bytes) {
  uint64_t offset = bundle.weights_bytes();
  bundle.set_weights_bytes(offset + (bytes + 63) / 64 * 64);
  return offset;
}

static void addWeight(format::Bundle &bundle, const std::string &name, uint64_t rows, format::ElementType element,
                      bool transposed) {
  format::Weight *weight = bundle.add_weights();
  weight->set_name(name);
  weight->set_rows(rows);
  weight->set_columns(tinyHidden);
  weight->set_rank(2);
  weight->set_element(element);
  weight->set_transposed(transposed);
  const format::StoredSize size = format::storedSize(*weight);
  weight->set_data_offset(takeBytes(bundle, size.dataBytes));
  if (size.groupBytes) {
    weight->set_group(format::groupSize);
    weight->set_scales_offset(takeBytes(bundle, size.groupBytes));
    weight->set_minima_offset(takeBytes(bundle, size.groupBytes));
  }
}

static void addTrainable(format::Bundle &bundle, const std::string &name, uint32_t rows, uint32_t columns,
                         float bound) {
  format::Trainable *trainable = bundle.add_trainables();
  trainable->set_name(name);
  trainable->set_rows(rows);
  trainable->set_columns(columns);
  trainable->set_initial_bound(bound);
}

format::Bundle tinyBundle(const TinyOptions &options) {
  format::Bundle bundle;
  bundle.set_producer("test");
  format::Model *model = bundle.mutable_model();
  model->set_name("tiny");
  model->set_vocabulary(tinyVocabulary);
  model->set_hidden(tinyHidden);
  model->set_batch(tinyBatch);
  model->set_sequence(tinySequence);
  model->set_activation(format::F32);
  model->mutable_lora()->set_rank(tinyRank);
  model->mutable_lora()->set_alpha(options.loraAlpha);
  model->mutable_lora()->set_rslora_alpha(options.rslora);
  model->mutable_lora()->add_target_modules("proj");
  model->mutable_lora()->set_seed(7);

  for (const format::Program &program :
       {embedForward(), layerForward(options), layerBackward(options), headObjective(options, true),
        headObjective(options, false), headLogits(options.logitRows)})
    *bundle.add_programs() = program;
  for (int program : {1, 2, 3})
    bundle.mutable_programs(program)->set_in_place(options.inPlace);

  addWeight(bundle, "model.embed.weight", tinyVocabulary, format::F32, false);
  bundle.mutable_weights(0)->add_aliases("lm_head.weight");
  format::Block *embed = addBlock(bundle, "model.embed", format::Block::EMBED);
  addProgram(embed, "forward", 0);
  addParameter(embed, "table")->set_weight(0);
  for (uint32_t i = 0; i < options.layers; ++i) {
    std::string name = "model.layers." + std::to_string(i);
    addWeight(bundle, name + ".proj.weight", tinyHidden, options.storage, options.transposed);
    if (i == 0 || !options.sharedAdapters) {
      addTrainable(bundle, "base_model.model." + name + ".proj.lora_A.weight", tinyRank, tinyHidden, options.bound);
      addTrainable(bundle, "base_model.model." + name + ".proj.lora_B.weight", tinyHidden, tinyRank, options.bound);
    }
    uint32_t first = options.sharedAdapters ? 0 : 2 * i;
    format::Block *layer = addBlock(bundle, name, format::Block::LAYER);
    addProgram(layer, "forward", 1);
    addProgram(layer, "backward", 2);
    addParameter(layer, "weight")->set_weight(1 + i);
    addParameter(layer, "lora_A")->set_trainable(first);
    addParameter(layer, "lora_B")->set_trainable(first + 1);
  }
  format::Block *head = addBlock(bundle, "lm_head", format::Block::HEAD);
  addProgram(head, "objective", 3);
  addProgram(head, "log_probabilities", 4);
  addProgram(head, "logits", 5);
  addParameter(head, "table")->set_weight(0);
  bundle.mutable_plan()->set_peak_bytes(1000000);
  bundle.mutable_plan()->set_optimizer("adamw");
  return bundle;
}

std::vector<int32_t> tinyTokens(uint64_t count, uint64_t seed) {
  std::vector<int32_t> tokens(count);
  for (uint64_t i = 0; i < count; ++i)
    tokens[i] = static_cast<int32_t>(format::randomBits(seed, 0, i) % tinyVocabulary);
  return tokens;
}

namespace {

using Row = std::vector<double>;

// The weights, as the kernels see them.
std::vector<float> weightOf(mebp_bundle *bundle, uint32_t index) {
  mebp_tensor_info info;
  mebp_bundle_weight_info(bundle, index, &info, nullptr);
  std::vector<float> stored(info.rows * info.columns);
  mebp_bundle_weight_read(bundle, index, stored.data(), nullptr);
  return stored;
}

Row product(const std::vector<double> &matrix, const Row &x, size_t rows) {
  Row y(rows);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < x.size(); ++c)
      y[r] += matrix[r * x.size() + c] * x[c];
  return y;
}

double loss(mebp_bundle *bundle, const TinyOptions &options, const std::vector<std::vector<double>> &values,
            const std::vector<int32_t> &ids, const std::vector<int32_t> &labels, uint32_t batch, uint32_t sequence) {
  std::vector<float> embedding = weightOf(bundle, 0);
  std::vector<std::vector<double>> weights;
  for (uint32_t i = 0; i < options.layers; ++i) {
    std::vector<float> stored = weightOf(bundle, 1 + i);
    weights.emplace_back(stored.begin(), stored.end());
    for (uint32_t r = 0; options.transposed && r < tinyHidden; ++r)
      for (uint32_t c = 0; c < tinyHidden; ++c)
        weights[i][r * tinyHidden + c] = stored[c * tinyHidden + r];
  }
  double total = 0;
  int count = 0;
  for (uint32_t token = 0; token < batch * sequence; ++token) {
    uint32_t position = token % sequence;
    if (position + 1 == sequence || labels[token + 1] == -100)
      continue;
    Row x(&embedding[ids[token] * tinyHidden], &embedding[ids[token] * tinyHidden] + tinyHidden);
    for (uint32_t i = 0; i < options.layers; ++i) {
      Row turned = x;
      for (size_t f = 0; f < frequencies.size(); ++f) {
        double angle = position * static_cast<double>(frequencies[f]), first = x[f], second = x[f + frequencies.size()];
        turned[f] = first * std::cos(angle) - second * std::sin(angle);
        turned[f + frequencies.size()] = second * std::cos(angle) + first * std::sin(angle);
      }
      size_t adapter = options.sharedAdapters ? 0 : 2 * i;
      Row base = product(weights[i], turned, tinyHidden);
      Row low = product(values[adapter + 1], product(values[adapter], turned, tinyRank), tinyHidden);
      for (uint32_t c = 0; c < tinyHidden; ++c)
        x[c] = turned[c] + base[c] + alpha * low[c];
    }
    Row logits = product({embedding.begin(), embedding.end()}, x, tinyVocabulary);
    double sum = 0;
    for (double logit : logits)
      sum += std::exp(logit);
    total += std::log(sum) - logits[labels[token + 1]];
    ++count;
  }
  return total / count;
}

std::vector<std::vector<double>> widen(const std::vector<std::vector<float>> &values) {
  std::vector<std::vector<double>> wide;
  for (const std::vector<float> &value : values)
    wide.emplace_back(value.begin(), value.end());
  return wide;
}

} // namespace

double referenceLoss(mebp_bundle *bundle, const TinyOptions &options, const std::vector<std::vector<float>> &values,
                     const std::vector<int32_t> &ids, const std::vector<int32_t> &labels, uint32_t batch,
                     uint32_t sequence) {
  return loss(bundle, options, widen(values), ids, labels, batch, sequence);
}

std::vector<double> referenceGradient(mebp_bundle *bundle, const TinyOptions &options,
                                      const std::vector<std::vector<float>> &values, uint32_t trainable,
                                      const std::vector<int32_t> &ids, const std::vector<int32_t> &labels,
                                      uint32_t batch, uint32_t sequence) {
  constexpr double distance = 1e-5;
  std::vector<std::vector<double>> wide = widen(values);
  std::vector<double> gradient;
  for (double &element : wide[trainable]) {
    double before = element;
    element = before + distance;
    double above = loss(bundle, options, wide, ids, labels, batch, sequence);
    element = before - distance;
    double below = loss(bundle, options, wide, ids, labels, batch, sequence);
    element = before;
    gradient.push_back((above - below) / (2 * distance));
  }
  return gradient;
}

} // namespace mebp::test
