// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "format/utf8.h"
#include "format/wire.h"

namespace mebp::format {

namespace {

enum WireType : uint32_t { Varint = 0, EightBytes = 1, Length = 2, GroupBegin = 3, GroupEnd = 4, FourBytes = 5 };

// What is still to be read of a message; a read that fails moves it nowhere in particular.
class Input {
public:
  explicit Input(std::string_view bytes) : at(bytes.data()), end(at + bytes.size()) {}

  bool atEnd() const { return at == end; }

  // Bits beyond the 64th are dropped, as everywhere with protobuf; a number has ten bytes at most.
  bool readVarint(uint64_t &out, int mostBytes = 10) {
    out = 0;
    for (int i = 0; i < mostBytes && at < end; ++i) {
      const auto byte = static_cast<unsigned char>(*at++);
      out |= static_cast<uint64_t>(byte & 127) << (7 * i);
      if (byte < 128)
        return true;
    }
    return false;
  }
  bool readTag(uint32_t &number, uint32_t &type) {
    uint64_t tag;
    if (!readVarint(tag, 5))
      return false;
    number = static_cast<uint32_t>(tag) >> 3;
    type = static_cast<uint32_t>(tag) & 7;
    return number != 0;
  }
  bool readBytes(std::string_view &out) {
    uint64_t size;
    if (!readVarint(size, 5) || size > static_cast<uint64_t>(end - at))
      return false;
    out = {at, static_cast<size_t>(size)};
    at += size;
    return true;
  }
  template <typename T> bool readFixed(T &out) {
    if (static_cast<size_t>(end - at) < sizeof(T))
      return false;
    std::memcpy(&out, at, sizeof(T));
    at += sizeof(T);
    return true;
  }

private:
  const char *at, *end;
};

// Puts a number where its field is.
template <typename T> void store(const Field &field, void *place, T value) {
  if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, float>)
    if (field.isRepeated)
      return static_cast<std::vector<T> *>(place)->push_back(value);
  if (field.presence == FieldPresence::Explicit)
    static_cast<Optional<T> *>(place)->set(value);
  else
    *static_cast<T *>(place) = value;
}

class Reader {
public:
  explicit Reader(uint64_t limit) : left(limit) {}

  bool readMessage(const MessageType &type, void *message, std::string_view bytes, int depth) {
    Input input(bytes);
    while (!input.atEnd()) {
      uint32_t number, wireType;
      if (!input.readTag(number, wireType))
        return false;
      const Field *field = findField(type, number);
      const bool read = field && wireType == wireTypeOf(*field) ? readField(type, *field, message, input, depth)
                        : field && isPacked(*field, wireType)   ? readPacked(*field, placeOf(*field, message), input)
                                                                : skipField(number, wireType, input, depth);
      if (!read)
        return false;
    }
    return true;
  }

  bool isBeyond() const { return beyond; }

private:
  static constexpr int deepest = 100; // of protobuf's own readers, too

  static const Field *findField(const MessageType &type, uint32_t number) {
    // Most tables have no gaps.
    if (number <= type.fieldCount && type.fields[number - 1].number == number)
      return &type.fields[number - 1];
    for (const Field *field = type.fields; field != type.fields + type.fieldCount; ++field)
      if (field->number == number)
        return field;
    return nullptr;
  }
  static void *placeOf(const Field &field, void *message) { return static_cast<char *>(message) + field.offset; }
  static uint32_t wireTypeOf(const Field &field) {
    switch (field.kind) {
    case FieldKind::Float:
      return FourBytes;
    case FieldKind::Double:
      return EightBytes;
    case FieldKind::String:
    case FieldKind::Message:
      return Length;
    default:
      return Varint;
    }
  }
  static bool isPacked(const Field &field, uint32_t wireType) {
    return field.isRepeated && wireType == Length; // one of strings or messages is not asked
  }

  bool count(uint64_t bytes) {
    beyond |= bytes > left;
    left -= beyond ? left : bytes;
    return !beyond;
  }

  static void clearOthers(const MessageType &type, const Field &field, void *message) {
    for (const Field *other = type.fields; other != type.fields + type.fieldCount; ++other) {
      if (other->oneof != field.oneof || other == &field)
        continue;
      void *place = placeOf(*other, message);
      if (other->kind == FieldKind::Message) {
        if (void *old = std::exchange(static_cast<AnyChild *>(place)->object, nullptr))
          other->type->destroy(old);
      } else {
        static_cast<Optional<uint32_t> *>(place)->clear();
      }
    }
  }

  bool readField(const MessageType &type, const Field &field, void *message, Input &input, int depth) {
    void *place = placeOf(field, message);
    if (field.oneof)
      clearOthers(type, field, message);
    switch (field.kind) {
    case FieldKind::Message:
      return readChild(field, place, input, depth + 1);
    case FieldKind::String:
      return readString(field, place, input);
    default:
      return readNumber(field, place, input);
    }
  }

  bool readChild(const Field &field, void *place, Input &input, int depth) {
    constexpr uint64_t allocation = 2 * sizeof(void *); // beside the object
    std::string_view bytes;
    if (depth > deepest || !input.readBytes(bytes))
      return false;
    void *&object = field.isRepeated ? static_cast<AnyRepeated *>(place)->objects.emplace_back(nullptr)
                                     : static_cast<AnyChild *>(place)->object;
    if (!object) {
      if (!count(field.type->bytes + allocation))
        return false;
      object = field.type->make();
    }
    return readMessage(*field.type, object, bytes, depth);
  }

  bool readString(const Field &field, void *place, Input &input) {
    std::string_view bytes;
    if (!input.readBytes(bytes) || !isUtf8(bytes) || (field.isRepeated && !count(sizeof(std::string) + bytes.size())))
      return false;
    if (field.isRepeated)
      static_cast<std::vector<std::string> *>(place)->emplace_back(bytes);
    else
      static_cast<std::string *>(place)->assign(bytes);
    return true;
  }

  template <typename Number> bool readFixed(const Field &field, void *place, Input &input) {
    Number value;
    if (!input.readFixed(value))
      return false;
    store(field, place, value);
    return true;
  }

  bool readNumber(const Field &field, void *place, Input &input) {
    if (field.isRepeated && !count(sizeof(uint64_t)))
      return false;
    if (field.kind == FieldKind::Float)
      return readFixed<float>(field, place, input);
    if (field.kind == FieldKind::Double)
      return readFixed<double>(field, place, input);
    uint64_t value;
    if (!input.readVarint(value))
      return false;
    switch (field.kind) {
    case FieldKind::Bool:
      store(field, place, value != 0);
      return true;
    case FieldKind::Int32:
      store(field, place, static_cast<int32_t>(value));
      return true;
    case FieldKind::UInt32:
      store(field, place, static_cast<uint32_t>(value));
      return true;
    default:
      store(field, place, value);
      return true;
    }
  }

  bool readPacked(const Field &field, void *place, Input &input) {
    std::string_view bytes;
    if (!input.readBytes(bytes))
      return false;
    Input numbers(bytes);
    while (!numbers.atEnd())
      if (!readNumber(field, place, numbers))
        return false;
    return true;
  }

  // Checks of what is not known no more than where it ends.
  bool skipField(uint32_t number, uint32_t wireType, Input &input, int depth) {
    uint64_t eight;
    uint32_t four;
    std::string_view bytes;
    switch (wireType) {
    case Varint:
      return input.readVarint(eight);
    case EightBytes:
      return input.readFixed(eight);
    case Length:
      return input.readBytes(bytes);
    case FourBytes:
      return input.readFixed(four);
    case GroupBegin:
      return skipGroup(number, input, depth + 1);
    default:
      return false;
    }
  }

  bool skipGroup(uint32_t group, Input &input, int depth) {
    if (depth > deepest)
      return false;
    uint32_t number, wireType;
    while (input.readTag(number, wireType)) {
      if (wireType == GroupEnd)
        return number == group;
      if (!skipField(number, wireType, input, depth))
        return false;
    }
    return false;
  }

  uint64_t left;
  bool beyond = false;
};

} // namespace

Parsed read(const MessageType &type, void *message, std::string_view bytes) {
  constexpr uint64_t least = 16 << 20; // what a small file may take in any case
  Reader reader(10 * uint64_t(bytes.size()) + least);
  if (reader.readMessage(type, message, bytes, 0))
    return Parsed::Yes;
  return reader.isBeyond() ? Parsed::TooLarge : Parsed::No;
}

} // namespace mebp::format
