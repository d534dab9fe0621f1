// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/describe_program.h"

#include <map>

#include <nlohmann/json.hpp>

#include "format/storage.h"
#include "runtime/bundle/enum_names.h"

namespace mebp {

using Json = nlohmann::ordered_json;
using Steps = format::Repeated<format::Step>;

static std::string nameOf(format::Loop::Domain domain) { return inLowerCase(format::Loop::Domain_Name(domain)); }
static std::string nameOf(format::Port::Kind kind) { return inLowerCase(format::Port::Kind_Name(kind)); }
static std::string nameOf(format::Placement::Kind kind) { return inLowerCase(format::Placement::Kind_Name(kind)); }

namespace {
// What the steps of a program are, nested ones included.
struct Count {
  std::map<std::string, int> kernels;
  int steps = 0, slices = 0, updates = 0;
  Json loops = Json::array();

  void add(const Steps &list) {
    for (const format::Step &step : list) {
      ++steps;
      slices += step.has_slice();
      updates += step.has_update();
      if (step.has_kernel())
        ++kernels[step.kernel().name()];
      if (step.has_loop()) {
        loops.push_back({{"domain", nameOf(step.loop().domain())}, {"size", step.loop().size()}});
        add(step.loop().steps());
      }
    }
  }
};
} // namespace

static Json describeValue(const format::Value &value) {
  Json described = {{"rows", value.rows()},
                    {"columns", value.columns()},
                    {"bytes", format::storedSize(value).dataBytes},
                    {"source", value.source()},
                    {"placement", nameOf(value.placement().kind())}};
  if (value.placement().kind() == format::Placement::ARENA)
    described["offset"] = value.placement().offset();
  return described;
}

static Json describeSteps(const Steps &steps);

static Json describeStep(const format::Step &step) {
  if (step.has_slice())
    return {{"op", "slice"}, {"reads", {step.slice().source()}}, {"writes", {step.slice().result()}}};
  if (step.has_update())
    return {{"op", "update"},
            {"reads", {step.update().destination(), step.update().source()}},
            {"writes", {step.update().result()}}};
  if (step.has_loop()) {
    Json carried = Json::array();
    for (const format::Carried &value : step.loop().carried())
      carried.push_back({{"initial", value.initial()},
                         {"argument", value.argument()},
                         {"yielded", value.yielded()},
                         {"result", value.result()}});
    return {{"op", "loop"},
            {"domain", nameOf(step.loop().domain())},
            {"size", step.loop().size()},
            {"carried", carried},
            {"steps", describeSteps(step.loop().steps())}};
  }
  Json reads = Json::array();
  for (int32_t operand : step.kernel().operands())
    if (operand >= 0) // an optional one that is absent
      reads.push_back(operand);
  return {{"op", step.kernel().name()}, {"reads", reads}, {"writes", step.kernel().results()}};
}

static Json describeSteps(const Steps &steps) {
  Json list = Json::array();
  for (const format::Step &step : steps)
    list.push_back(describeStep(step));
  return list;
}

static Json describePorts(const format::Repeated<format::Port> &ports) {
  Json list = Json::array();
  for (const format::Port &port : ports)
    list.push_back({{"kind", nameOf(port.kind())}, {"name", port.name()}, {"value", port.value()}});
  return list;
}

static Json describeValues(const format::Program &program) {
  Json list = Json::array();
  for (const format::Value &value : program.values())
    list.push_back(describeValue(value));
  return list;
}

Json describeProgram(const format::Program &program) {
  Count count;
  count.add(program.steps());
  return {{"name", program.name()},
          {"arena_bytes", program.arena_bytes()},
          {"values", program.values_size()},
          {"steps", count.steps},
          {"kernels", Json(count.kernels)},
          {"loops", count.loops},
          {"slices", count.slices},
          {"updates", count.updates},
          {"inputs", program.inputs_size()},
          {"outputs", program.outputs_size()},
          {"takes", describePorts(program.inputs())},
          {"gives", describePorts(program.outputs())},
          {"in_place", program.in_place()},
          {"tensors", describeValues(program)},
          {"order", describeSteps(program.steps())}};
}

} // namespace mebp
