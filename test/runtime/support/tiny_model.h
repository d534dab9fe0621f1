// SPDX-License-Identifier: Apache-2.0
//
// A small model as a bundle, every program written by hand, and the same model again in double.
#pragma once

#include <string>
#include <vector>

#include "format/program.pb.h"
#include "mebp/mebp.h"

namespace mebp::test {

struct TinyOptions {
  uint32_t layers = 2;
  uint32_t chunk = 0;          // rows of a chunk of the layers; 0: no loop
  bool sharedAdapters = false; // all layers train the same A and B
  bool transposed = false;
  bool inPlace = false;                      // what flows from block to block is replaced where it lies
  format::ElementType storage = format::F32; // of the layers' weights
  uint32_t logitRows = 10;                   // that the logits program is planned for
  bool packs = false;                        // layers take where samples start
  float bound = 0.5f;                        // of the trainables' initial values
  float loraAlpha = 4;                       // as the adapter's configuration has it
  float rslora = 0;                          // likewise with use_rslora, where it is not 0
};

constexpr uint32_t tinyVocabulary = 11, tinyHidden = 6, tinyRank = 2, tinyBatch = 2, tinySequence = 5;

// embed; then layers y = x' + W x' + 2 B A x' with x' = rope(x); then a head tied to the embedding.
format::Bundle tinyBundle(const TinyOptions &options);

// A bundle folder that is deleted at the end of its scope.
class BundleFolder {
public:
  explicit BundleFolder(const format::Bundle &bundle);
  ~BundleFolder();

  const std::string &path() const { return folder; }
  std::string file(const char *name) const { return folder + "/" + name; }
  // Writes program.pb again, with the checksums that make it look whole.
  void writeProgram(const format::Bundle &bundle) const;
  // Another manifest.json, and its checksum with the program.
  void writeManifest(const format::Bundle &bundle, const std::string &text);

private:
  std::string folder, manifest = "{\"name\": \"tiny\"}\n";
};

std::string readWhole(const std::string &path);
void writeWhole(const std::string &path, const std::string &content);
// A path in the tests' temporary folder that no other test uses.
std::string scratchPath();
// Where the tests run, since a folder for temporary files may be in memory.
std::string scratchPathOnDisk();

// The model in double: the mean loss, with the trainables in `values` (by index).
double referenceLoss(mebp_bundle *bundle, const TinyOptions &options, const std::vector<std::vector<float>> &values,
                     const std::vector<int32_t> &ids, const std::vector<int32_t> &labels, uint32_t batch,
                     uint32_t sequence);
// Its derivative by each element of one trainable, from differences.
std::vector<double> referenceGradient(mebp_bundle *bundle, const TinyOptions &options,
                                      const std::vector<std::vector<float>> &values, uint32_t trainable,
                                      const std::vector<int32_t> &ids, const std::vector<int32_t> &labels,
                                      uint32_t batch, uint32_t sequence);

// Ids that look random, all of them in the vocabulary.
std::vector<int32_t> tinyTokens(uint64_t count, uint64_t seed = 1);

} // namespace mebp::test
