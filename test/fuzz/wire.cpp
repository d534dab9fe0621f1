// SPDX-License-Identifier: Apache-2.0
#include "wire.h"

#include <algorithm>
#include <cstring>

namespace mebp::fuzz {

namespace {

constexpr uint32_t varint = 0, eightBytes = 1, lengthDelimited = 2, fourBytes = 5;
constexpr int maximumDepth = 32;

class Reader {
public:
  explicit Reader(const std::string &bytes) : bytes(bytes) {}

  bool atEnd() const { return at == bytes.size(); }
  bool readVarint(uint64_t &out) {
    out = 0;
    for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
      auto byte = static_cast<unsigned char>(bytes[at++]);
      out |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80)
        return true;
    }
    return false;
  }
  bool readFixed(uint64_t &out, size_t size) {
    if (bytes.size() - at < size)
      return false;
    out = 0;
    std::memcpy(&out, &bytes[at], size);
    at += size;
    return true;
  }
  bool readBytes(std::string &out) {
    uint64_t size;
    if (!readVarint(size) || size > bytes.size() - at)
      return false;
    out = bytes.substr(at, size);
    at += size;
    return true;
  }

private:
  const std::string &bytes;
  size_t at = 0;
};

bool isText(const std::string &bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Of packed numbers, one of which is to be changed.
std::optional<std::vector<uint64_t>> parsePacked(const std::string &bytes) {
  std::vector<uint64_t> numbers;
  Reader reader(bytes);
  while (!reader.atEnd())
    if (!reader.readVarint(numbers.emplace_back()))
      return std::nullopt;
  return numbers;
}

std::string packed(const std::vector<uint64_t> &numbers) {
  std::string bytes;
  for (uint64_t number : numbers)
    appendVarint(bytes, number);
  return bytes;
}

// Every list of fields in the tree.
void collect(Fields &fields, std::vector<Fields *> &lists) {
  lists.push_back(&fields);
  for (Field &field : fields)
    if (field.isMessage)
      collect(field.children, lists);
}

void collect(const Fields &fields, const Field &like, std::vector<const Field *> &found) {
  for (const Field &field : fields) {
    if (field.number == like.number && field.type == like.type && field.isMessage == like.isMessage)
      found.push_back(&field);
    collect(field.children, like, found);
  }
}

class Mutator {
public:
  Mutator(Fields &fields, const Fields &donor, Random &random) : fields(fields), donor(donor), random(random) {}

  void run() {
    std::vector<Fields *> lists;
    collect(fields, lists);
    Fields &list = *lists[below(lists.size())];
    if (list.empty() || below(12) == 0) {
      insert(list);
      return;
    }
    size_t index = below(list.size());
    switch (below(12)) {
    case 0:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    case 1: {
      Field copy = list[index];
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)), copy);
      return;
    }
    case 2:
      std::swap(list[index], list[below(list.size())]);
      return;
    case 3:
      list[index].number = 1 + static_cast<uint32_t>(below(20));
      return;
    case 4:
    case 5:
    case 6:
      takeOver(list[index]);
      return;
    default:
      change(list[index]);
    }
  }

private:
  size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); }

  uint64_t anyNumber(uint64_t before) {
    switch (below(8)) {
    case 0:
      return before + 1;
    case 1:
      return before - 1;
    case 2:
      return below(8);
    case 3:
      return ~uint64_t(0) - below(2);
    case 4:
      return (uint64_t(1) << below(64)) - below(2);
    case 5:
      return before * 2;
    case 6:
      return before / 2;
    default:
      return below(300);
    }
  }

  // A number of the kind that floats have in their bits.
  uint64_t anyReal(uint32_t type) {
    const double numbers[] = {0, -1, 1, 1e-30, 1e30, -2.5, 0.0 / 1.0, 1e308 * 10, 1e308 * 10 - 1e308 * 10, 64, 3, 1e9};
    double number = numbers[below(std::size(numbers))];
    auto narrow = static_cast<float>(number);
    uint64_t bits = 0;
    if (type == eightBytes)
      std::memcpy(&bits, &number, sizeof(number));
    else
      std::memcpy(&bits, &narrow, sizeof(narrow));
    return bits;
  }

  void insert(Fields &list) {
    Field field;
    field.number = 1 + static_cast<uint32_t>(below(20));
    field.type = below(2) ? varint : lengthDelimited;
    field.value = anyNumber(1);
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)), field);
  }

  void takeOver(Field &field) {
    std::vector<const Field *> found;
    collect(donor, field, found);
    if (!found.empty())
      field = Field(*found[below(found.size())]);
  }

  void change(Field &field) {
    if (field.type == varint)
      field.value = anyNumber(field.value);
    else if (field.type != lengthDelimited)
      field.value = below(3) ? anyReal(field.type) : random();
    else if (field.isMessage && !field.children.empty())
      Mutator(field.children, donor, random).run();
    else
      changeBytes(field);
  }

  void changeBytes(Field &field) {
    std::optional<std::vector<uint64_t>> numbers;
    if (!isText(field.bytes))
      numbers = parsePacked(field.bytes);
    if (numbers && !numbers->empty()) {
      size_t index = below(numbers->size());
      switch (below(5)) {
      case 0:
        numbers->erase(numbers->begin() + static_cast<std::ptrdiff_t>(index));
        break;
      case 1:
        numbers->push_back((*numbers)[index]);
        break;
      case 2:
        (*numbers)[index] = (*numbers)[below(numbers->size())];
        break;
      default:
        (*numbers)[index] = anyNumber((*numbers)[index]);
      }
      field.bytes = packed(*numbers);
      return;
    }
    if (field.bytes.empty() || below(4) == 0)
      field.bytes.insert(below(field.bytes.size() + 1), 1, static_cast<char>(below(256)));
    else if (below(3) == 0)
      field.bytes.erase(below(field.bytes.size()), 1);
    else
      field.bytes[below(field.bytes.size())] = static_cast<char>(below(256));
  }

  Fields &fields;
  const Fields &donor;
  Random &random;
};

} // namespace

std::optional<Fields> parse(const std::string &bytes, int depth) {
  Fields fields;
  Reader reader(bytes);
  while (!reader.atEnd()) {
    Field field;
    uint64_t tag;
    if (!reader.readVarint(tag) || tag >> 3 == 0 || tag >> 3 > 64)
      return std::nullopt;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = static_cast<uint32_t>(tag & 7);
    bool read = field.type == varint            ? reader.readVarint(field.value)
                : field.type == eightBytes      ? reader.readFixed(field.value, 8)
                : field.type == fourBytes       ? reader.readFixed(field.value, 4)
                : field.type == lengthDelimited ? reader.readBytes(field.bytes)
                                                : false;
    if (!read)
      return std::nullopt;
    if (field.type == lengthDelimited && !isText(field.bytes) && depth < maximumDepth)
      if (std::optional<Fields> children = parse(field.bytes, depth + 1)) {
        field.children = std::move(*children);
        field.isMessage = true;
      }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string serialize(const Fields &fields) {
  std::string out;
  for (const Field &field : fields) {
    appendVarint(out, static_cast<uint64_t>(field.number) << 3 | field.type);
    if (field.type == varint) {
      appendVarint(out, field.value);
    } else if (field.type == lengthDelimited) {
      const std::string inner = field.isMessage ? serialize(field.children) : field.bytes;
      appendVarint(out, inner.size());
      out += inner;
    } else {
      out.append(reinterpret_cast<const char *>(&field.value), field.type == eightBytes ? 8 : 4);
    }
  }
  return out;
}

void mutate(Fields &fields, const Fields &donor, Random &random) { Mutator(fields, donor, random).run(); }

Field &fieldOf(Fields &fields, uint32_t number, uint32_t type) {
  for (Field &field : fields)
    if (field.number == number && field.type == type)
      return field;
  Field added;
  added.number = number;
  added.type = type;
  return fields.emplace_back(added);
}

} // namespace mebp::fuzz
