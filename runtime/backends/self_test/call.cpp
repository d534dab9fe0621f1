// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/call.h"

#include <algorithm>

#include "format/alignment.h"
#include "format/storage.h"

namespace mebp::self_test {

Call inBf16(Call call) {
  for (std::vector<Matrix> *matrices : {&call.operands, &call.results})
    for (Matrix &matrix : *matrices)
      if (matrix.isActivation)
        matrix.element = format::BF16;
  return call;
}

bool isInBf16(const Call &call) {
  auto isRounded = [](const Matrix &matrix) { return matrix.isActivation && matrix.element == format::BF16; };
  return std::any_of(call.operands.begin(), call.operands.end(), isRounded) ||
         std::any_of(call.results.begin(), call.results.end(), isRounded);
}

std::string describe(const Call &call) {
  std::string list;
  for (const Matrix &operand : call.operands.empty() ? call.results : call.operands)
    if (operand.rows)
      list += (list.empty() ? "" : ", ") + std::to_string(operand.rows) + "x" + std::to_string(operand.columns) + " " +
              nameOf(format::storageOf(operand.element));
  return call.kernel + "(" + list + ")";
}

static int32_t addValue(const Matrix &matrix, format::Program &program) {
  if (matrix.rows == 0)
    return -1;
  format::Value *value = program.add_values();
  value->set_rows(matrix.rows);
  value->set_columns(matrix.columns);
  value->set_element(matrix.element);
  return program.values_size() - 1;
}

static void placeInArena(format::Value &value, format::Program &program) {
  value.mutable_placement()->set_kind(format::Placement::ARENA);
  value.mutable_placement()->set_offset(program.arena_bytes());
  const uint64_t bytes = value.rows() * format::rowBytesOf(format::storageOf(value.element()), value.columns());
  program.set_arena_bytes(program.arena_bytes() + format::alignUp(bytes));
}

static void addTo(format::Program &program, const Call &call) {
  format::Kernel &kernel = *program.add_steps()->mutable_kernel();
  kernel.set_name(call.kernel);
  for (const Matrix &operand : call.operands) {
    kernel.add_operands(addValue(operand, program));
    if (operand.rows)
      program.add_inputs()->set_value(static_cast<uint32_t>(program.values_size() - 1));
  }
  for (const Matrix &result : call.results) {
    kernel.add_results(addValue(result, program));
    if (result.isUnread)
      placeInArena(*program.mutable_values(program.values_size() - 1), program);
    else
      program.add_outputs()->set_value(static_cast<uint32_t>(program.values_size() - 1));
  }
  for (const Attribute &given : call.attributes) {
    format::Attribute *attribute = kernel.add_attributes();
    attribute->set_name(given.name);
    attribute->set_number(given.number);
    attribute->set_text(given.text);
    *attribute->mutable_numbers() = given.numbers;
  }
}

format::Program programOf(const Call &call, size_t copies) {
  format::Program program;
  program.set_name(call.kernel);
  for (size_t copy = 0; copy < copies; ++copy)
    addTo(program, call);
  return program;
}

} // namespace mebp::self_test
