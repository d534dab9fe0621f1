// SPDX-License-Identifier: Apache-2.0
//
// What programs of one block give each other: each that one of them takes, one of them gives, in its type; a cotangent
// is of something that is there, in its type.
#include <string>

#include "format/lookup.h"
#include "runtime/bundle/validate.h"

namespace mebp {

using format::Port;

namespace {

class RemoteValidator {
public:
  RemoteValidator(const format::Block &block, const format::Bundle &bundle, bool generates)
      : block(block), bundle(bundle), generates(generates) {}

  Status check() const {
    for (const format::BlockProgram &named : block.programs()) {
      if (!isOurs(named))
        continue;
      const format::Program &program = programOf(named);
      for (const Port &port : program.inputs())
        if (port.kind() == Port::REMOTE || port.kind() == Port::KEPT)
          if (Status status = check(program, port, port.name(), true); !status.ok())
            return status.in("its " + named.name() + " program");
      for (const Port &port : program.outputs())
        if (isRemote(port, true))
          if (Status status = check(program, port, format::flowOf(port.name()), false); !status.ok())
            return status.in("its " + named.name() + " program");
    }
    return Status();
  }

private:
  bool isOurs(const format::BlockProgram &named) const {
    return format::findProgram(named.name()) && format::generates(named.name()) == generates;
  }
  const format::Program &programOf(const format::BlockProgram &named) const {
    return bundle.programs(static_cast<int>(named.program()));
  }

  // That one program gives it, or takes what a cotangent is of.
  Status check(const format::Program &program, const Port &port, std::string_view name, bool isGiven) const {
    const format::Value &value = valueOf(program, port);
    for (const format::BlockProgram &named : block.programs()) {
      if (!isOurs(named))
        continue;
      const format::Program &other = programOf(named);
      const Port *found = findPort(isGiven ? other.outputs() : other.inputs(), port.kind(), name);
      if (!found)
        continue;
      const format::Value &given = valueOf(other, *found);
      if (given.columns() == value.columns() && given.element() == value.element() && given.rows() == value.rows())
        return Status();
      return failure(MEBP_CORRUPT, "its port '%s' is of another type elsewhere in the block", port.name().c_str());
    }
    if (bundle.has_split() && port.kind() == Port::REMOTE) // the other half has it
      return Status();
    return failure(MEBP_CORRUPT, "its port '%s' is of nothing in the block", port.name().c_str());
  }

  const format::Block &block;
  const format::Bundle &bundle;
  bool generates;
};

} // namespace

Status validateRemote(const format::Block &block, const format::Bundle &bundle) {
  for (bool generates : {false, true})
    if (Status status = RemoteValidator(block, bundle, generates).check(); !status.ok())
      return status;
  return Status();
}

} // namespace mebp
