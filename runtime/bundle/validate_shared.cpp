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

bool areAlike(const format::Value &left, const format::Value &right) {
  return left.rows() == right.rows() && left.columns() == right.columns() && left.element() == right.element();
}

class SharedValidator {
public:
  explicit SharedValidator(const format::Bundle &bundle) : bundle(bundle) {}

  Status check() {
    for (const format::Block &block : bundle.blocks()) {
      for (const format::BlockProgram &named : block.programs())
        if (format::findProgram(named.name()))
          if (Status status = check(named); !status.ok())
            return status.in("its " + named.name() + " program").in("block '" + block.name() + "'");
      // Of what this block gives, later ones read.
      for (const format::BlockProgram &named : block.programs())
        if (Status status = give(named); !status.ok())
          return status.in("its " + named.name() + " program").in("block '" + block.name() + "'");
    }
    return Status();
  }

private:
  using Values = std::unordered_map<std::string, const format::Value *>;

  const format::Program &programOf(const format::BlockProgram &named) const {
    return bundle.programs(static_cast<int>(named.program()));
  }

  Status check(const format::BlockProgram &named) const {
    const format::Program &program = programOf(named);
    const bool generates = format::generates(named.name());
    for (const Port &port : program.inputs())
      if (port.kind() == Port::SHARED && !format::isCotangent(port.name()))
        if (Status status = checkTaken(program, port, generates ? states : given); !status.ok())
          return status;
    for (const Port &port : program.outputs()) {
      if (port.kind() != Port::SHARED || !format::isCotangent(port.name()))
        continue;
      const std::string value(format::flowOf(port.name()));
      const Port *sum = findPort(program.inputs(), Port::SHARED, port.name());
      if (!sum || !findPort(program.inputs(), Port::SHARED, value) ||
          !areAlike(valueOf(program, *sum), valueOf(program, port)))
        return failure(MEBP_CORRUPT, "it gives '%s' without what it adds to, or of nothing that it takes",
                       port.name().c_str());
    }
    return Status();
  }

  Status checkTaken(const format::Program &program, const Port &port, const Values &known) const {
    const auto found = known.find(port.name());
    if (found == known.end())
      return failure(MEBP_CORRUPT, "it takes '%s', which no block before it gives", port.name().c_str());
    if (areAlike(*found->second, valueOf(program, port)))
      return Status();
    return failure(MEBP_CORRUPT, "its port '%s' is of another type than what gives it", port.name().c_str());
  }

  Status give(const format::BlockProgram &named) {
    if (!format::findProgram(named.name()))
      return Status();
    const format::Program &program = programOf(named);
    if (format::generates(named.name())) {
      for (const Port &port : program.inputs())
        if (port.kind() == Port::STATE && port.name().rfind(format::sharedPrefix, 0) == 0 &&
            !states.emplace(port.name(), &valueOf(program, port)).second)
          return failure(MEBP_CORRUPT, "its state '%s' is another block's, too", port.name().c_str());
      return Status();
    }
    for (const Port &port : program.outputs())
      if (port.kind() == Port::SHARED && !format::isCotangent(port.name()) &&
          !given.emplace(port.name(), &valueOf(program, port)).second)
        return failure(MEBP_CORRUPT, "it gives '%s', as another block does", port.name().c_str());
    return Status();
  }

  const format::Bundle &bundle;
  Values given, states; // by blocks so far
};

} // namespace

Status validateShared(const format::Bundle &bundle) { return SharedValidator(bundle).check(); }

} // namespace mebp
