// SPDX-License-Identifier: Apache-2.0
//
// What the classes of program.proto's messages are made of: they and their tables come from generate_messages.py, and
// one reader and one writer (wire.h) follow the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace mebp::format {

struct MessageType;

// The C++ type of a field; of an enumeration int32_t.
enum class FieldKind : uint8_t { Bool, Int32, UInt32, UInt64, Float, Double, String, Message };

// What the generator checks: of several numbers, Int32 and Float alone; with presence, UInt32 and UInt64.
enum class FieldPresence : uint8_t {
  Implicit, // T, a Child<T> or, of several, a std::vector<T> or Repeated<T>
  Explicit  // an Optional<T>
};

struct Field {
  uint16_t number;
  uint16_t offset; // in the object
  FieldKind kind;
  FieldPresence presence;
  bool isRepeated;
  uint8_t oneof;           // the fields of one exclude each other; 0: of none
  const MessageType *type; // of a Message
};

struct MessageType {
  void *(*make)();
  void (*destroy)(void *object);
  const Field *fields; // ascending by number
  uint16_t fieldCount;
  uint16_t bytes; // of an object
};

// Makes, copies and ends messages of a class that need not be complete where this is used (message-inl.h).
template <typename T> struct Object {
  static void *make();
  static void *copy(const void *other);
  static void destroy(void *object);
  static const T &none(); // what an absent one reads as
};

template <typename T> struct Optional {
  T value = 0;
  bool isSet = false;
  void set(T given) { *this = {given, true}; }
  void clear() { *this = {}; }
};

// As the reader and the writer see a Child.
struct AnyChild {
  void *object = nullptr;
};

template <typename T> class Child : public AnyChild {
public:
  Child() = default;
  Child(const Child &other) { object = other.object ? Object<T>::copy(other.object) : nullptr; }
  Child(Child &&other) noexcept { std::swap(object, other.object); }
  Child &operator=(Child other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Child() { clear(); }

  bool isSet() const { return object; }
  const T &get() const { return object ? *static_cast<const T *>(object) : Object<T>::none(); }
  T *make() {
    if (!object)
      object = Object<T>::make();
    return static_cast<T *>(object);
  }
  void clear() {
    if (void *old = std::exchange(object, nullptr))
      Object<T>::destroy(old);
  }
};

// As the reader and the writer see a Repeated.
struct AnyRepeated {
  std::vector<void *> objects;
};

// Messages in a row. Each stays where it is when others are added.
template <typename T> class Repeated : private AnyRepeated {
  template <typename U> class Iterator {
  public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = U *;
    using reference = U &;

    explicit Iterator(void *const *at) : at(at) {}
    U &operator*() const { return *static_cast<U *>(*at); }
    U *operator->() const { return static_cast<U *>(*at); }
    U &operator[](difference_type distance) const { return *(*this + distance); }
    Iterator &operator+=(difference_type distance) {
      at += distance;
      return *this;
    }
    Iterator &operator-=(difference_type distance) { return *this += -distance; }
    Iterator &operator++() { return *this += 1; }
    Iterator &operator--() { return *this -= 1; }
    Iterator operator++(int) { return Iterator(at++); }
    Iterator operator--(int) { return Iterator(at--); }
    Iterator operator+(difference_type distance) const { return Iterator(at + distance); }
    Iterator operator-(difference_type distance) const { return Iterator(at - distance); }
    difference_type operator-(const Iterator &other) const { return at - other.at; }
    bool operator==(const Iterator &other) const { return at == other.at; }
    bool operator!=(const Iterator &other) const { return at != other.at; }
    bool operator<(const Iterator &other) const { return at < other.at; }

  private:
    void *const *at;
  };

public:
  using value_type = T;

  Repeated() = default;
  Repeated(const Repeated &other) : Repeated() {
    for (const void *object : other.objects) {
      objects.push_back(nullptr);
      objects.back() = Object<T>::copy(object);
    }
  }
  Repeated(Repeated &&other) noexcept { objects.swap(other.objects); }
  Repeated &operator=(Repeated other) noexcept {
    objects.swap(other.objects);
    return *this;
  }
  ~Repeated() { Clear(); }

  int size() const { return static_cast<int>(objects.size()); }
  bool empty() const { return objects.empty(); }
  const T &operator[](int index) const { return *static_cast<const T *>(objects[static_cast<size_t>(index)]); }
  T *Mutable(int index) { return static_cast<T *>(objects[static_cast<size_t>(index)]); }
  T *Add() {
    objects.push_back(nullptr);
    return static_cast<T *>(objects.back() = Object<T>::make());
  }
  void RemoveLast() {
    Object<T>::destroy(objects.back());
    objects.pop_back();
  }
  void Clear() {
    while (!objects.empty())
      RemoveLast();
  }

  Iterator<const T> begin() const { return Iterator<const T>(objects.data()); }
  Iterator<const T> end() const { return Iterator<const T>(objects.data() + objects.size()); }
  Iterator<T> begin() { return Iterator<T>(objects.data()); }
  Iterator<T> end() { return Iterator<T>(objects.data() + objects.size()); }
  auto rbegin() const { return std::make_reverse_iterator(end()); }
  auto rend() const { return std::make_reverse_iterator(begin()); }
  auto rbegin() { return std::make_reverse_iterator(end()); }
  auto rend() { return std::make_reverse_iterator(begin()); }
};

} // namespace mebp::format
