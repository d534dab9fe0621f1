// SPDX-License-Identifier: Apache-2.0
//
// What blocks share: each value is given by one block's forward, and taken by later blocks alone, in its type. A
// cotangent is taken wherever it is given, since what gives it adds to it, and only by blocks that have the value. Text
// is generated with rows of a state of the block that gives it, under the value's name and in its size.
#include <string>
#include <unordered_map>

#include "format/lookup.h"
#include "runtime/bundle/validate.h"

namespace mebp {

using format::Port;

namespace {

bool areOneSize(const format::Value &left, const format::Value &right) {
  return left.rows() == right.rows() && left.columns() == right.columns();
}

class SharedValidator {
public:
  explicit SharedValidator(const format::Bundle &bundle) : bundle(bundle) {}

  Status check() {
    for (const format::Block &block : bundle.blocks()) {
      // Of what this block gives, later ones read; of its own it has the cotangent alone.
      for (auto step : {&SharedValidator::checkTaken, &SharedValidator::give, &SharedValidator::checkCotangents})
        for (const format::BlockProgram &named : block.programs())
          if (format::findProgram(named.name()))
            if (Status status = (this->*step)(named); !status.ok())
              return status.in("its " + named.name() + " program").in("block '" + block.name() + "'");
    }
    return Status();
  }

private:
  using Values = std::unordered_map<std::string, const format::Value *>;

  const format::Program &programOf(const format::BlockProgram &named) const {
    return bundle.programs(static_cast<int>(named.program()));
  }

  Status checkTaken(const format::BlockProgram &named) {
    const format::Program &program = programOf(named);
    const Values &known = format::generates(named.name()) ? states : given;
    for (const Port &port : program.inputs()) {
      if (port.kind() != Port::SHARED || format::isCotangent(port.name()))
        continue;
      const auto found = known.find(port.name());
      if (found == known.end())
        return failure(MEBP_CORRUPT, "it takes '%s', which no block before it gives", port.name().c_str());
      const format::Value &value = valueOf(program, port);
      if (!areOneSize(*found->second, value) || found->second->element() != value.element())
        return failure(MEBP_CORRUPT, "its port '%s' is of another type than what gives it", port.name().c_str());
    }
    return Status();
  }

  Status give(const format::BlockProgram &named) {
    const format::Program &program = programOf(named);
    const bool generates = format::generates(named.name());
    const format::Ports &ports = generates ? program.inputs() : program.outputs();
    for (const Port &port : ports) {
      const bool isShared = generates ? port.kind() == Port::STATE && isSharedName(port.name())
                                      : port.kind() == Port::SHARED && !format::isCotangent(port.name());
      if (isShared && !(generates ? states : given).emplace(port.name(), &valueOf(program, port)).second)
        return failure(MEBP_CORRUPT, "it gives '%s', as another block does", port.name().c_str());
    }
    return Status();
  }

  // Each is of a value that is there, in its size, and added to where it is given.
  Status checkCotangents(const format::BlockProgram &named) {
    const format::Program &program = programOf(named);
    for (const format::Ports *ports : {&program.inputs(), &program.outputs()})
      for (const Port &port : *ports) {
        if (port.kind() != Port::SHARED || !format::isCotangent(port.name()))
          continue;
        const auto found = given.find(std::string(format::flowOf(port.name())));
        const bool isSum = ports == &program.inputs() || findPort(program.inputs(), Port::SHARED, port.name());
        if (!isSum || found == given.end() || !areOneSize(*found->second, valueOf(program, port)))
          return failure(MEBP_CORRUPT, "its port '%s' is of nothing that blocks share, or adds to nothing",
                         port.name().c_str());
      }
    return Status();
  }

  static bool isSharedName(std::string_view name) {
    return name.substr(0, format::sharedPrefix.size()) == format::sharedPrefix;
  }

  const format::Bundle &bundle;
  Values given, states; // by blocks so far
};

} // namespace

Status validateShared(const format::Bundle &bundle) { return SharedValidator(bundle).check(); }

} // namespace mebp
