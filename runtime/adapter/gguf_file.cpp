// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/gguf_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/tensor_names.h"
#include "runtime/adapter/adapter.h"
#include "runtime/adapter/adapter_config.h"
#include "runtime/adapter/gguf_places.h"
#include "runtime/adapter/kinds.h"
#include "runtime/core/files.h"

namespace mebp {

namespace {

// What is of one layer: the trainables that are its A and B, or the one that is both.
struct Layer {
  std::string name;
  std::vector<uint32_t> trainables;
  uint64_t rank = 0, inputs = 0, outputs = 0;
  GgufPlace place;
};

// GGUF's numbers are little-endian, and so is every machine that this runs on.
class Head {
public:
  template <typename Number> void add(Number number) {
    bytes.append(reinterpret_cast<const char *>(&number), sizeof(number));
  }
  void add(const std::string &text) {
    add(static_cast<uint64_t>(text.size()));
    bytes += text;
  }
  void add(const char *key, const std::string &value) {
    add(std::string(key));
    add(uint32_t{8}); // a text
    add(value);
  }
  void add(const char *key, float value) {
    add(std::string(key));
    add(uint32_t{6}); // f32
    add<float>(value);
  }

  std::string bytes;
};

} // namespace

static constexpr uint64_t alignment = 32;
static uint64_t aligned(uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Refuses what has no place in such a file.
static Status checkFactor(const format::Trainable &trainable) {
  if (trainable.has_rows_of())
    return failure(MEBP_UNSUPPORTED,
                   "trains rows of new tokens ('%s'), which no other form has; mebp merge writes the "
                   "model with them",
                   trainable.name().c_str());
  if (trainable.has_initial_weight() || format::adaptedLayer(trainable.name()).empty())
    return failure(MEBP_UNSUPPORTED,
                   "trains '%s', and only LoRA of linear layers is supported; train or save the adapter without it",
                   trainable.name().c_str());
  return Status();
}

static Status findLayers(const format::Bundle &bundle, const GgufPlaces &places, std::vector<Layer> &out) {
  const LoraForm *form = loraFormOf(bundle);
  for (int i = 0; i < bundle.trainables_size(); ++i) {
    const format::Trainable &trainable = bundle.trainables(i);
    if (isOfValueHead(trainable.name())) // which is for training on alone
      continue;
    if (Status status = checkFactor(trainable); !status.ok())
      return status;
    const std::string_view name = format::adaptedLayer(trainable.name());
    if (out.empty() || out.back().name != name)
      out.emplace_back().name = name;
    Layer &layer = out.back();
    layer.trainables.push_back(static_cast<uint32_t>(i));
    if (form) {
      const std::vector<TensorHead> heads = form->heads(trainable);
      layer.rank = heads[0].shape[0], layer.inputs = heads[0].shape[1], layer.outputs = heads[1].shape[0];
    } else if (layer.trainables.size() == 1) {
      layer.rank = trainable.rows(), layer.inputs = trainable.columns();
    } else {
      layer.outputs = trainable.rows();
    }
  }
  for (Layer &layer : out) {
    Result<GgufPlace> place = places.of(layer.name, layer.outputs, layer.inputs);
    if (!place.ok())
      return place.status();
    layer.place = std::move(*place);
  }
  return Status();
}

static Status readFactors(const Engine &engine, const Layer &layer, std::vector<float> &a, std::vector<float> &b) {
  std::vector<float> *into[] = {&a, &b};
  const LoraForm *form = loraFormOf(engine.bundle().content());
  std::vector<float> between;
  if (form)
    into[0] = &between;
  for (size_t i = 0; i < layer.trainables.size(); ++i) {
    into[i]->resize(engine.trainables.elements(layer.trainables[i]));
    if (Status status = engine.trainables.read(layer.trainables[i], Adapter::Policy, into[i]->data()); !status.ok())
      return status;
  }
  if (form)
    form->factors(engine.bundle().content().trainables(static_cast<int>(layer.trainables[0])), between, a, b);
  return Status();
}

// Takes columns, and then rows, in another order.
static void reorder(std::vector<float> &matrix, uint64_t columns, const std::vector<uint64_t> &rowOrder,
                    const std::vector<uint64_t> &columnOrder) {
  if (rowOrder.empty() && columnOrder.empty())
    return;
  const std::vector<float> old = matrix;
  for (uint64_t row = 0; row < old.size() / columns; ++row)
    for (uint64_t column = 0; column < columns; ++column)
      matrix[row * columns + column] = old[(rowOrder.empty() ? row : rowOrder[row]) * columns +
                                           (columnOrder.empty() ? column : columnOrder[column])];
}

static void writeTensor(const float *values, uint64_t count, FileReplacement &file) {
  static constexpr char zeros[alignment] = {};
  const uint64_t bytes = count * sizeof(float);
  file.write(values, bytes);
  file.write(zeros, aligned(bytes) - bytes);
}

static std::string headOf(const std::string &architecture, float alpha, const std::vector<Layer> &layers) {
  uint64_t tensors = 0, offset = 0;
  for (const Layer &layer : layers)
    tensors += 2 * layer.place.tensors.size();
  Head head;
  head.bytes = "GGUF";
  head.add(uint32_t{3}); // the version
  head.add(tensors);
  head.add(uint64_t{4}); // keys
  head.add("general.architecture", architecture);
  head.add("general.type", std::string("adapter"));
  head.add("adapter.type", std::string("lora"));
  head.add("adapter.lora.alpha", alpha);
  auto addTensor = [&](const std::string &name, uint64_t rows, uint64_t columns) {
    head.add(name);
    head.add(uint32_t{2}); // extents, the last one first
    head.add(columns);
    head.add(rows);
    head.add(uint32_t{0}); // F32
    head.add(offset);
    offset += aligned(rows * columns * sizeof(float));
  };
  for (const Layer &layer : layers)
    for (size_t i = 0; i < layer.place.tensors.size(); ++i) {
      addTensor(layer.place.tensors[i] + ".lora_a", layer.rank, layer.inputs);
      addTensor(layer.place.tensors[i] + ".lora_b", layer.place.cuts[i], layer.rank);
    }
  head.bytes.resize(aligned(head.bytes.size()));
  return std::move(head.bytes);
}

static Status write(const Engine &engine, const std::string &architecture, const std::vector<Layer> &layers,
                    const std::string &path) {
  // llama.cpp multiplies by alpha / rank, and by one where alpha is zero: B has what that leaves out.
  const format::Lora &lora = engine.bundle().model().lora();
  const double scale = adapterScale(lora);
  const auto alpha = static_cast<float>((scale != 0 ? scale : 1.0) * lora.rank());
  if (alpha == 0 || !std::isfinite(alpha))
    return failure(MEBP_UNSUPPORTED,
                   "has the scale %g, which GGUF cannot hold; train the adapter with another "
                   "lora_alpha",
                   scale);
  FileReplacement file(path);
  const std::string head = headOf(architecture, alpha, layers);
  file.write(head.data(), head.size());
  std::vector<float> a, b;
  for (const Layer &layer : layers) {
    if (Status status = readFactors(engine, layer, a, b); !status.ok())
      return status;
    const double read = static_cast<double>(alpha) / static_cast<double>(layer.rank);
    if (read != scale)
      std::transform(b.begin(), b.end(), b.begin(),
                     [factor = static_cast<float>(scale / read)](float value) { return value * factor; });
    for (const std::vector<float> *factor : {&a, &b})
      if (!std::all_of(factor->begin(), factor->end(), [](float value) { return std::isfinite(value); }))
        return failure(MEBP_NOT_FINITE,
                       "'%s' has numbers that are not finite; use an adapter from a run that did not "
                       "diverge",
                       layer.name.c_str());
    reorder(a, layer.inputs, {}, layer.place.columns);
    reorder(b, layer.rank, layer.place.rows, {});
    const float *next = b.data();
    for (uint64_t rows : layer.place.cuts) {
      writeTensor(a.data(), a.size(), file);
      writeTensor(next, rows * layer.rank, file);
      next += rows * layer.rank;
    }
  }
  if (Status status = file.sync(); !status.ok())
    return status;
  return file.replace();
}

Status saveAdapterGguf(const Engine &engine, const std::string &path) {
  if (Status status = checkLora(engine); !status.ok())
    return status;
  if (Status status = engine.trainables.checkSaves(); !status.ok())
    return status;
  Result<GgufPlaces> places = GgufPlaces::read(engine.bundle().manifest());
  if (!places.ok())
    return places.status().in(path);
  std::vector<Layer> layers;
  if (Status status = findLayers(engine.bundle().content(), *places, layers); !status.ok())
    return status.in(path);
  Status status = write(engine, places->architecture(), layers, path);
  return status.code() == MEBP_IO ? status : status.in(path);
}

} // namespace mebp
