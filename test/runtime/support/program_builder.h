// SPDX-License-Identifier: Apache-2.0
//
// Programs written by hand: every arena value gets a place of its own, unless it is asked to share one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/ports.h"
#include "format/program.pb.h"

namespace mebp::test {

struct AttributeValue {
  std::string name;
  double number = 0;
  std::vector<float> numbers = {};
};

class ProgramBuilder {
public:
  // All tokens of a step are at most this many rows.
  ProgramBuilder(const std::string &name, uint64_t tokens) : maximumTokens(tokens), steps{program.mutable_steps()} {
    program.set_name(name);
  }

  uint32_t tokens(uint64_t columns) { return arena(maximumTokens, columns, format::Extent::TOKENS); }
  uint32_t matrix(uint64_t rows, uint64_t columns) { return arena(rows, columns, format::Extent::STATIC); }
  uint32_t loopRows(uint32_t loop, uint64_t rows, uint64_t columns) {
    return arena(rows, columns, format::Extent::LOOP, loop);
  }
  // The same shape, in the same place: what a kernel accumulates into, a loop carries or an update gives.
  uint32_t inPlaceOf(uint32_t other) {
    format::Value copy = program.values(static_cast<int>(other));
    if (copy.placement().kind() == format::Placement::BOUND) {
      copy.mutable_placement()->set_kind(format::Placement::ALIAS);
      copy.mutable_placement()->set_alias(other);
    }
    *program.add_values() = copy;
    return last();
  }
  // By tokens.
  uint32_t input(format::Port::Kind kind, std::string_view name, uint64_t columns,
                 format::ElementType element = format::F32) {
    return addPort(program.mutable_inputs(), kind, name,
                   bound(maximumTokens, columns, format::Extent::TOKENS, element));
  }
  uint32_t flowInput(uint64_t columns) { return input(format::Port::FLOW, format::hiddenFlow, columns); }
  uint32_t cotangentInput(uint64_t columns) {
    return input(format::Port::FLOW, format::cotangentOf(format::hiddenFlow), columns);
  }
  uint32_t idsInput() { return input(format::Port::BATCH, format::idsPort, 1, format::I32); }
  uint32_t labelsInput() { return input(format::Port::BATCH, format::labelsPort, 1, format::I32); }
  uint32_t startsInput() { return input(format::Port::BATCH, format::startsPort, 1, format::I32); }
  uint32_t coefficientsInput() { return input(format::Port::BATCH, format::coefficientsPort, 1); }
  uint32_t parameter(std::string_view name, uint64_t rows, uint64_t columns,
                     format::ElementType element = format::F32) {
    return addPort(program.mutable_inputs(), format::Port::PARAMETER, name,
                   bound(rows, columns, format::Extent::STATIC, element));
  }
  uint32_t stateInput(std::string_view name, uint64_t rows, uint64_t columns) {
    return addPort(program.mutable_inputs(), format::Port::STATE, name,
                   bound(rows, columns, format::Extent::STATIC, format::F32));
  }
  // By tokens.
  uint32_t output(format::Port::Kind kind, std::string_view name, uint64_t columns) {
    return addPort(program.mutable_outputs(), kind, name,
                   bound(maximumTokens, columns, format::Extent::TOKENS, format::F32));
  }
  uint32_t flowOutput(uint64_t columns) { return output(format::Port::FLOW, format::hiddenFlow, columns); }
  uint32_t cotangentOutput(uint64_t columns) {
    return output(format::Port::FLOW, format::cotangentOf(format::hiddenFlow), columns);
  }
  uint32_t logitsOutput(uint64_t columns) { return output(format::Port::RESULT, format::logitsPort, columns); }
  uint32_t logProbabilitiesOutput() { return output(format::Port::RESULT, format::logProbabilitiesPort, 1); }
  uint32_t entropyOutput() { return output(format::Port::RESULT, format::entropyPort, 1); }
  uint32_t gradient(std::string_view name, uint64_t rows, uint64_t columns) {
    return addPort(program.mutable_outputs(), format::Port::GRADIENT, name,
                   bound(rows, columns, format::Extent::STATIC, format::F32));
  }

  void kernel(const std::string &name, const std::vector<int64_t> &operands, const std::vector<int64_t> &results,
              const std::vector<AttributeValue> &attributes = {}) {
    format::Kernel *kernel = steps.back()->Add()->mutable_kernel();
    kernel->set_name(name);
    for (int64_t operand : operands)
      kernel->add_operands(static_cast<int32_t>(operand));
    for (int64_t result : results)
      kernel->add_results(static_cast<int32_t>(result));
    for (const AttributeValue &given : attributes) {
      format::Attribute *attribute = kernel->add_attributes();
      attribute->set_name(given.name);
      attribute->set_number(given.number);
      for (float number : given.numbers)
        attribute->add_numbers(number);
    }
  }
  uint32_t slice(uint32_t source, uint32_t loop, uint64_t rows) {
    format::Value view = program.values(static_cast<int>(source));
    view.set_rows(rows);
    view.mutable_row_extent()->set_kind(format::Extent::LOOP);
    view.mutable_row_extent()->set_loop(loop);
    view.mutable_placement()->Clear();
    view.mutable_placement()->set_kind(format::Placement::VIEW);
    *program.add_values() = view;
    format::Slice *slice = steps.back()->Add()->mutable_slice();
    slice->set_source(source);
    slice->set_result(last());
    slice->set_loop(loop);
    return last();
  }
  uint32_t update(uint32_t destination, uint32_t source, uint32_t loop) {
    uint32_t result = inPlaceOf(destination);
    format::Update *update = steps.back()->Add()->mutable_update();
    update->set_destination(destination);
    update->set_source(source);
    update->set_result(result);
    update->set_loop(loop);
    return result;
  }

  // Everything until endLoop goes into the loop. Takes what is carried in, gives its arguments.
  std::vector<uint32_t> beginLoop(format::Loop::Domain domain, uint32_t size, const std::vector<uint32_t> &initial,
                                  uint32_t domainValue = 0) {
    format::Loop *loop = steps.back()->Add()->mutable_loop();
    loop->set_loop(program.loops());
    program.set_loops(program.loops() + 1);
    loop->set_domain(domain);
    loop->set_domain_value(domainValue);
    loop->set_size(size);
    std::vector<uint32_t> arguments;
    for (uint32_t value : initial) {
      format::Carried *carried = loop->add_carried();
      carried->set_initial(value);
      arguments.push_back(inPlaceOf(value));
      carried->set_argument(arguments.back());
    }
    open.push_back(loop);
    steps.push_back(loop->mutable_steps());
    return arguments;
  }
  void endLoop(std::vector<uint32_t> yielded, std::vector<uint32_t> results) {
    for (size_t i = 0; i < yielded.size(); ++i) {
      open.back()->mutable_carried(static_cast<int>(i))->set_yielded(yielded[i]);
      open.back()->mutable_carried(static_cast<int>(i))->set_result(results[i]);
    }
    open.pop_back();
    steps.pop_back();
  }

  // A value that lies in an output's memory before the output itself is there.
  uint32_t aliasOf(uint32_t output) { return inPlaceOf(output); }

  format::Program program;

  // Sets the columns of a value to those of the current trip of a loop over weights.
  void columnsOfLoop(uint32_t value, uint32_t loop) {
    format::Extent *extent = program.mutable_values(static_cast<int>(value))->mutable_column_extent();
    extent->set_kind(format::Extent::LOOP);
    extent->set_loop(loop);
  }

private:
  uint32_t last() const { return static_cast<uint32_t>(program.values_size() - 1); }
  uint32_t add(uint64_t rows, uint64_t columns, format::Extent::Kind kind, format::ElementType element) {
    format::Value *value = program.add_values();
    value->set_element(element);
    value->set_rows(rows);
    value->set_columns(columns);
    value->mutable_row_extent()->set_kind(kind);
    return last();
  }
  uint32_t bound(uint64_t rows, uint64_t columns, format::Extent::Kind kind, format::ElementType element) {
    return add(rows, columns, kind, element);
  }
  uint32_t arena(uint64_t rows, uint64_t columns, format::Extent::Kind kind, uint32_t loop = 0) {
    uint32_t index = add(rows, columns, kind, format::F32);
    format::Value *value = program.mutable_values(static_cast<int>(index));
    value->mutable_row_extent()->set_loop(loop);
    value->mutable_placement()->set_kind(format::Placement::ARENA);
    value->mutable_placement()->set_offset(program.arena_bytes());
    program.set_arena_bytes(program.arena_bytes() + (rows * columns * 4 + 63) / 64 * 64);
    return index;
  }
  static uint32_t addPort(format::Repeated<format::Port> *ports, format::Port::Kind kind, std::string_view name,
                          uint32_t value) {
    format::Port *port = ports->Add();
    port->set_kind(kind);
    port->set_name(std::string(name));
    port->set_value(value);
    return value;
  }

  uint64_t maximumTokens;
  std::vector<format::Repeated<format::Step> *> steps;
  std::vector<format::Loop *> open;
};

} // namespace mebp::test
