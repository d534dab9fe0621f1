// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "format/wire.h"

namespace mebp::format {

namespace {

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void appendBytes(std::string &out, std::string_view bytes) {
  appendVarint(out, bytes.size());
  out += bytes;
}

enum WireType : uint32_t { Varint = 0, EightBytes = 1, Length = 2, FourBytes = 5 };

template <typename T> constexpr WireType wireTypeOf() {
  return std::is_same_v<T, float> ? FourBytes : std::is_same_v<T, double> ? EightBytes : Varint;
}

class Writer {
public:
  std::string out;

  void writeMessage(const MessageType &type, const void *message) {
    for (const Field *field = type.fields; field != type.fields + type.fieldCount; ++field)
      writeField(*field, static_cast<const char *>(message) + field->offset);
  }

private:
  void writeField(const Field &field, const void *place) {
    switch (field.kind) {
    case FieldKind::Message:
      if (!field.isRepeated)
        return writeChild(field, static_cast<const AnyChild *>(place)->object);
      for (const void *object : static_cast<const AnyRepeated *>(place)->objects)
        writeChild(field, object);
      return;
    case FieldKind::String:
      if (!field.isRepeated)
        return writeString(field, *static_cast<const std::string *>(place), false);
      for (const std::string &text : *static_cast<const std::vector<std::string> *>(place))
        writeString(field, text, true);
      return;
    case FieldKind::Bool:
      return writeNumber<bool>(field, place);
    case FieldKind::Int32:
      return writeNumber<int32_t>(field, place);
    case FieldKind::UInt32:
      return writeNumber<uint32_t>(field, place);
    case FieldKind::UInt64:
      return writeNumber<uint64_t>(field, place);
    case FieldKind::Float:
      return writeNumber<float>(field, place);
    case FieldKind::Double:
      return writeNumber<double>(field, place);
    }
  }

  void writeChild(const Field &field, const void *object) {
    if (!object)
      return;
    Writer inner;
    inner.writeMessage(*field.type, object);
    writeTag(field, Length);
    appendBytes(out, inner.out);
  }

  void writeString(const Field &field, const std::string &text, bool evenEmpty) {
    if (text.empty() && !evenEmpty)
      return;
    writeTag(field, Length);
    appendBytes(out, text);
  }

  template <typename T> void writeNumber(const Field &field, const void *place) {
    if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, float>)
      if (field.isRepeated)
        return writePacked(field, *static_cast<const std::vector<T> *>(place));
    const auto *given = static_cast<const Optional<T> *>(place);
    const bool isExplicit = field.presence == FieldPresence::Explicit;
    const T value = isExplicit ? given->value : *static_cast<const T *>(place);
    if (isExplicit ? !given->isSet : isZero(value))
      return;
    writeTag(field, wireTypeOf<T>());
    append(out, value);
  }

  template <typename T> void writePacked(const Field &field, const std::vector<T> &values) {
    if (values.empty())
      return;
    std::string packed;
    for (T value : values)
      append(packed, value);
    writeTag(field, Length);
    appendBytes(out, packed);
  }

  void writeTag(const Field &field, WireType type) { appendVarint(out, uint64_t(field.number) << 3 | type); }

  // By its bits: -0.0 is written.
  template <typename T> static bool isZero(T value) {
    constexpr char zero[sizeof(T)] = {};
    return std::memcmp(&value, zero, sizeof(T)) == 0;
  }

  template <typename T> static void append(std::string &out, T value) {
    if constexpr (wireTypeOf<T>() == Varint)
      appendVarint(out, static_cast<uint64_t>(static_cast<int64_t>(value))); // below zero it has ten bytes
    else
      out.append(reinterpret_cast<const char *>(&value), sizeof(T));
  }
};

} // namespace

std::string write(const MessageType &type, const void *message) {
  Writer writer;
  writer.writeMessage(type, message);
  return std::move(writer.out);
}

} // namespace mebp::format
