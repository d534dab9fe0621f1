// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/describe.h"

#include <nlohmann/json.hpp>

#include "format/channels.h"
#include "format/lookup.h"
#include "format/python_memory.h"
#include "format/storage.h"
#include "format/tasks.h"
#include "runtime/bundle/describe_program.h"
#include "runtime/bundle/enum_names.h"
#include "runtime/core/decimal.h"

namespace mebp {

using Json = nlohmann::ordered_json;

static const char *nameOf(format::ElementType element) { return format::nameOf(format::storageOf(element)); }

static std::string nameOf(format::Block::Kind kind) { return inLowerCase(format::Block::Kind_Name(kind)); }

static uint64_t bytesOf(const format::Weight &weight) {
  format::StoredSize size = format::storedSize(weight);
  return size.dataBytes + 2 * size.groupBytes;
}

static Json describeModel(const format::Model &model) {
  return {{"name", model.name()},
          {"vocabulary", model.vocabulary()},
          {"hidden", model.hidden()},
          {"batch", model.batch()},
          {"sequence", model.sequence()},
          {"positions", model.positions()},
          {"activation", nameOf(model.activation())},
          {"task", format::taskOf(model).name},
          {"classes", model.classes()},
          {"text_part", model.text_part()},
          {"router_aux_loss_coef", model.router_aux_loss_coef()},
          {"lora",
           {{"rank", model.lora().rank()},
            {"alpha", model.lora().alpha()},
            {"rslora_alpha", model.lora().rslora_alpha()},
            {"dropout", decimalOf(model.lora().dropout())},
            {"first_layer", model.lora().first_layer()},
            {"layer_count", model.lora().layer_count()},
            {"layers_pattern", model.lora().layers_pattern()},
            {"target_modules", model.lora().target_modules()},
            {"target_parameters", model.lora().target_parameters()},
            {"seed", seedOf(model)}}}};
}

static Json describeBlock(const format::Bundle &bundle, const format::Block &block) {
  Json programs = Json::object();
  for (const format::BlockProgram &program : block.programs())
    programs[program.name()] = program.program();
  uint64_t weightBytes = 0, trainableElements = 0;
  for (const format::Parameter &parameter : block.parameters()) {
    if (parameter.has_weight()) {
      weightBytes += bytesOf(bundle.weights(static_cast<int>(parameter.weight())));
    } else {
      const format::Trainable &trainable = bundle.trainables(static_cast<int>(parameter.trainable()));
      trainableElements += static_cast<uint64_t>(trainable.rows()) * trainable.columns();
    }
  }
  return {{"name", block.name()},        {"kind", nameOf(block.kind())},
          {"programs", programs},        {"parameters", block.parameters_size()},
          {"weight_bytes", weightBytes}, {"trainable_elements", trainableElements}};
}

static Json describeBuffers(const format::Repeated<format::Buffer> &buffers) {
  Json list = Json::array();
  for (const format::Buffer &buffer : buffers)
    list.push_back({{"name", buffer.name()}, {"bytes", buffer.bytes()}, {"source", buffer.source()}});
  return list;
}

static Json describePlan(const format::Plan &plan) {
  return {{"peak_bytes", plan.peak_bytes()},
          {"process_bytes", plan.process_bytes()},
          {"threads", plan.threads()},
          {"optimizer", plan.optimizer()},
          {"momentum", plan.momentum()},
          {"chunk", plan.chunk()},
          {"spacing", plan.spacing()},
          {"budget_bytes", plan.budget_bytes()},
          {"spill_checkpoints", plan.spill_checkpoints()},
          {"spill_optimizer", plan.spill_optimizer()},
          {"file_bytes", plan.file_bytes()},
          {"seconds_without_spill", plan.seconds_without_spill()},
          {"peak_bytes_without_spill", plan.peak_bytes_without_spill()},
          {"resident_limit", plan.resident_limit()},
          {"live_bytes", plan.live_bytes()},
          {"predicted_seconds", plan.predicted_seconds()},
          {"calibrated", plan.calibrated()},
          {"loss_rows", plan.loss_rows()},
          {"loss_columns", plan.loss_columns()},
          {"buffers", describeBuffers(plan.buffers())},
          {"other_peaks", describeBuffers(plan.other_peaks())},
          {"at_peak", describeBuffers(plan.at_peak())},
          {"generation_peak_bytes", plan.generation_peak_bytes()},
          {"in_flight_bytes", plan.in_flight_bytes()},
          {"device", plan.device().empty() ? "cpu" : plan.device()},
          {"device_bytes", plan.device_bytes()},
          {"generation_device_bytes", plan.generation_device_bytes()},
          {"generation", describeBuffers(plan.generation())}};
}

static Json describeChannels(const format::Bundle &device, format::Passing passing) {
  Json list = Json::array();
  for (const format::Channel &channel : format::listChannels(device, passing))
    list.push_back({{"block", channel.block},
                    {"what", nameOf(channel.stage)},
                    {"to_server", channel.isUp},
                    {"columns", channel.columns},
                    {"storage", format::nameOf(channel.storage)},
                    {"row_bytes", channel.rowBytes()},
                    {"selected_rows", channel.isSelected}});
  return list;
}

// The device's half also knows what passes.
static Json describeSplit(const format::Bundle &bundle) {
  const format::Split &split = bundle.split();
  Json described = {{"place", inLowerCase(format::Split::Place_Name(split.place()))},
                    {"pair", split.pair()},
                    {"first_block", split.first_block()},
                    {"end_block", split.end_block()},
                    {"lowest_trained", split.lowest_trained()}};
  if (split.place() != format::Split::DEVICE)
    return described;
  Json channels = {{"forward", describeChannels(bundle, format::Passing::Forward)},
                   {"backward", describeChannels(bundle, format::Passing::Backward)}};
  if (bundle.model().positions())
    channels["decode"] = describeChannels(bundle, format::Passing::Decode);
  described["channels"] = channels;
  return described;
}

std::string describeBundle(const format::Bundle &bundle) {
  Json blocks = Json::array(), programs = Json::array(), weights = Json::array(), trainables = Json::array();
  for (const format::Block &block : bundle.blocks())
    blocks.push_back(describeBlock(bundle, block));
  for (const format::Program &program : bundle.programs())
    programs.push_back(describeProgram(program));
  for (const format::Weight &weight : bundle.weights()) {
    weights.push_back({{"name", weight.name()},
                       {"rows", weight.rows()},
                       {"columns", weight.columns()},
                       {"storage", nameOf(weight.element())},
                       {"bytes", bytesOf(weight)},
                       {"transposed", weight.transposed()},
                       {"aliases", weight.aliases()}});
    if (weight.shape_size() > 0)
      weights.back()["shape"] = weight.shape();
  }
  for (const format::Trainable &trainable : bundle.trainables()) {
    trainables.push_back({{"name", trainable.name()},
                          {"rows", trainable.rows()},
                          {"gradient_elements", gradientElements(bundle, static_cast<uint32_t>(trainables.size()))},
                          {"columns", trainable.columns()},
                          {"gradient_rank", trainable.rank()},
                          {"storage", format::nameOf(format::storageOf(trainable))}});
    if (trainable.has_rows_of()) {
      trainables.back()["rows_of"] = bundle.weights(static_cast<int>(trainable.rows_of())).name();
      trainables.back()["first_row"] = trainable.first_row();
    }
    if (!trainable.adapts().empty())
      trainables.back()["adapts"] = trainable.adapts();
    if (const format::Between &between = trainable.between(); trainable.has_between())
      trainables.back()["between"] = {{"seed", between.seed()},
                                      {"a_stream", between.a_stream()},
                                      {"b_stream", between.b_stream()},
                                      {"inputs", between.inputs()},
                                      {"outputs", between.outputs()}};
  }
  Json description = {{"producer", bundle.producer()},
                      {"model", describeModel(bundle.model())},
                      {"plan", describePlan(bundle.plan())},
                      {"weights_bytes", bundle.weights_bytes()},
                      {"python_bytes", format::pythonBytes},
                      {"blocks", blocks},
                      {"programs", programs},
                      {"weights", weights},
                      {"trainables", trainables}};
  if (bundle.has_split())
    description["split"] = describeSplit(bundle);
  // A name that is no UTF-8 must not stop a report.
  return description.dump(2, ' ', false, Json::error_handler_t::replace);
}

} // namespace mebp
