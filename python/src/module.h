// SPDX-License-Identifier: Apache-2.0
//
// The Python extension mebp._runtime: the C API as two classes. Checks that NumPy makes easy (shapes, integer ranges)
// are made in Python; every other failure comes from the C API as one line and is raised as mebp.Error.
#pragma once

#include "mebp/mebp.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace mebp::python {

namespace nb = nanobind;

using TokenArray = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using TokenRow = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using FloatResult = nb::ndarray<nb::numpy, float>;
using Path = std::filesystem::path; // whose name may be any bytes, and not UTF-8 alone

// Raises mebp.Error with the C API's line, where `code` says that a call failed.
void check(mebp_code code, const mebp_error &error);

// A new NumPy array of the given shape, its memory uninitialised and owned by the array.
FloatResult makeArray(const std::vector<size_t> &shape);

class Bundle {
public:
  explicit Bundle(const Path &path);

  mebp_bundle_info info() const;
  // How many logits a token has.
  uint32_t outputs() const;
  nb::dict describeInfo() const;
  nb::list weights() const;
  nb::list trainables() const;
  FloatResult readWeight(uint32_t index) const;
  void checkWeights() const;
  // Of each trainable, what is part `index` of `count` with this optimizer.
  std::vector<mebp_range> ownElements(mebp_optimizer optimizer, uint32_t index, uint32_t count) const;
  // (offset, bytes) in weights.bin of what is each block's own.
  nb::list blockRegions() const;
  const char *manifest() const { return mebp_bundle_manifest_json(handle.get()); }
  const char *describe() const { return mebp_bundle_describe_json(handle.get()); }
  mebp_bundle *get() const { return handle.get(); }

private:
  struct Close {
    void operator()(mebp_bundle *bundle) const { mebp_bundle_close(bundle); }
  };
  std::unique_ptr<mebp_bundle, Close> handle;
};

// The shape as Python sees it: a vector has one extent.
std::vector<size_t> shapeOf(const mebp_tensor_info &info);

void bindBundle(nb::module_ &module);
void bindFolders(nb::module_ &module);
void bindGguf(nb::module_ &module);
void bindSession(nb::module_ &module);
void bindSplit(nb::module_ &module);

} // namespace mebp::python
