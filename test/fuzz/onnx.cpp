// SPDX-License-Identifier: Apache-2.0
//
// A model.onnx: read, imported, and where it is accepted and small, taken through every pass to placed programs.
// Whatever stops it on the way says why, in one line.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <vector>

#include "compiler/import/Import.h"
#include "compiler/import/OnnxFile.h"
#include "compiler/pipeline/Pipeline.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/Locations.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "target.h"
#include "wire.h"

using namespace mlir;
using namespace mebp;

namespace {

// For external data, beside the model.
constexpr size_t weightsBytes = 4 << 20;

struct Folder {
  std::string path = fuzz::scratchFolder(), model = path + "/model.onnx";

  Folder() {
    const std::vector<float> weights(weightsBytes / sizeof(float), 0.0625F);
    fuzz::writeFile(path + "/model.safetensors", weights.data(), weightsBytes);
  }
};

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

// A context like mebpc's, whose diagnostics are one line each and go nowhere.
class Compiler {
public:
  Compiler() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<func::FuncDialect, nn::NNDialect, train::TrainDialect, exec::ExecDialect>();
    context.printOpOnDiagnostic(false);
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
      check(diagnostic);
      for (Diagnostic &note : diagnostic.getNotes())
        check(note);
      return success();
    });
  }

  void read(const std::string &path, size_t size) {
    fuzz::AllocationLimit limit(size);
    hold(OnnxFile::read(path, context) != nullptr, "the reader");
  }

  void compile(const std::string &path) {
    OwningOpRef<ModuleOp> module = importOnnx(path, context);
    if (!hold(static_cast<bool>(module), "the importer"))
      return;
    Options options;
    options.shape.batch = getInteger(*module, "mebp.batch");
    options.shape.sequence = getInteger(*module, "mebp.sequence");
    if (options.shape.batch > 4 || options.shape.sequence > 64)
      return;
    PassManager passes(&context), schedule(&context);
    buildPipeline(passes, options, Level::Exec);
    if (!hold(succeeded(passes.run(*module)), "a pass"))
      return;
    buildSchedulePipeline(schedule, options, Level::Exec);
    hold(succeeded(schedule.run(*module)), "a pass of the schedule");
  }

private:
  static int64_t getInteger(ModuleOp module, StringRef name) {
    return module->getAttrOfType<IntegerAttr>(name).getInt();
  }

  static void check(Diagnostic &diagnostic) {
    const std::string line = nn::describeDiagnostic(diagnostic);
    if (line.empty() || line.find('\n') != std::string::npos)
      fail("this is not one line: " + line);
  }

  // A failure has said why, and what says why has failed.
  bool hold(bool succeeded, const char *stage) {
    if (succeeded == (errors > 0))
      fail(std::string(stage) + (succeeded ? " went on after an error" : " failed without an error"));
    errors = 0;
    return succeeded;
  }

  MLIRContext context;
  int errors = 0;
};

} // namespace

// MLIR, which is not built with a sanitizer, writes into pools of memory that our code made.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Folder folder;
  fuzz::writeFile(folder.model, data, size);
  Compiler().read(folder.model, size);
  Compiler().compile(folder.model);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

static std::vector<std::string> split(const std::string &words) {
  std::istringstream stream(words);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Makes one node of the graph one of another op, which no mutation of a name comes to.
static void changeOp(fuzz::Fields &model, fuzz::Random &random) {
  constexpr uint32_t graphOfModel = 7, nodeOfGraph = 1, opOfNode = 4, bytes = 2;
  static const std::vector<std::string> ops = split(
      "Abs Add And ArgMax Attention Cast CastLike CausalConv Clip Concat Constant Cos CumSum Div Dropout Equal Erf "
      "Exp Expand Flatten GatedDelta Gather GatherElements GatherND Gelu Gemm Greater GreaterOrEqual Identity IsNaN "
      "LayerNormalization Less LessOrEqual Log MatMul Max Min Mul Neg Not Or Pow RMSNormalization Range Reciprocal "
      "ReduceMax ReduceMean ReduceSum Relu Reshape RotaryEmbedding ScatterElements SequenceAt Shape Sigmoid Size "
      "Slice Softmax Softplus Split SplitToSequence Sqrt Squeeze Sub Swish Tanh TopK Transpose Trilu Unsqueeze "
      "Where");
  fuzz::Fields &graph = fuzz::fieldOf(model, graphOfModel, bytes).children;
  std::vector<fuzz::Field *> nodes;
  for (fuzz::Field &field : graph)
    if (field.number == nodeOfGraph && field.isMessage)
      nodes.push_back(&field);
  if (!nodes.empty())
    fuzz::fieldOf(nodes[random() % nodes.size()]->children, opOfNode, bytes).bytes = ops[random() % ops.size()];
}

// Mutates fields; now and then the bytes themselves.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  fuzz::Random random(seed);
  std::optional<fuzz::Fields> fields;
  if (random() % 64)
    fields = fuzz::parse({reinterpret_cast<const char *>(data), size});
  if (!fields)
    return LLVMFuzzerMutate(data, size, room);
  const fuzz::Fields donor = *fields;
  if (random() % 8 == 0)
    changeOp(*fields, random);
  for (unsigned changes = 1 + random() % 3; changes; --changes)
    fuzz::mutate(*fields, donor, random);
  const std::string mutant = fuzz::serialize(*fields);
  if (mutant.size() > room)
    return LLVMFuzzerMutate(data, size, room);
  std::copy(mutant.begin(), mutant.end(), data);
  return mutant.size();
}
