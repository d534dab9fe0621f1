// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/PlanFile.h"
#include "format/json_depth.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mebp {

namespace fs = llvm::sys::fs;

static constexpr uint64_t largestPlan = 16 << 20; // a plan has a few KB

static bool isPlan(llvm::StringRef path, uint64_t size) {
  if (size > largestPlan)
    return false;
  auto content = llvm::MemoryBuffer::getFile(path);
  if (!content)
    return false;
  llvm::StringRef text = (*content)->getBuffer();
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(format::isDeepJson(text) ? "" : text);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return false;
  }
  const llvm::json::Object *object = parsed->getAsObject();
  return object && (object->getArray("frontier") || (object->getArray("at_peak") && object->getInteger("peak_bytes")));
}

static llvm::Error refuse(llvm::StringRef path, llvm::StringRef reason) {
  return llvm::createStringError("--plan-json " + path + ": " + reason);
}

llvm::Error checkPlanFile(llvm::StringRef path, llvm::StringRef input) {
  if (path.empty())
    return llvm::Error::success();
  bool isInput = false;
  if (!fs::equivalent(path, input, isInput) && isInput)
    return refuse(path, "is also the model, which would be lost; choose another");
  fs::file_status status;
  if (fs::status(path, status) || status.type() == fs::file_type::character_file ||
      status.type() == fs::file_type::fifo_file)
    return llvm::Error::success();
  if (status.type() != fs::file_type::regular_file)
    return refuse(path, "something else is there; choose another");
  if (status.getSize() && !isPlan(path, status.getSize()))
    return refuse(path, "exists and is not a plan of mebpc; choose another");
  return llvm::Error::success();
}

llvm::Error writePlanFile(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> print) {
  if (path.empty())
    return llvm::Error::success();
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (!error) {
    print(stream);
    stream.flush();
    error = stream.error();
    stream.clear_error(); // which would end the process
  }
  if (error)
    return refuse(path, "cannot be written (" + error.message() + "); make room or choose another");
  return llvm::Error::success();
}

} // namespace mebp
