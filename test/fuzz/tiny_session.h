// SPDX-License-Identifier: Apache-2.0
//
// A session of the tests' tiny model, for what is read into one.
#pragma once

#include <filesystem>
#include <string>

#include "mebp/mebp.h"
#include "program_file.h"
#include "target.h"
#include "test/runtime/support/tiny_model.h"

namespace mebp::fuzz {

class TinySession {
public:
  TinySession() {
    const format::Bundle content = test::tinyBundle({});
    const std::string program = programFile(content), folder = scratchFolder() + "/tiny.mebp";
    const std::string weights(content.weights_bytes(), '\x38'); // a small number, as f32
    std::filesystem::create_directories(folder);
    writeFile(folder + "/manifest.json", manifest, sizeof(manifest) - 1);
    writeFile(folder + "/program.pb", program.data(), program.size());
    writeFile(folder + "/weights.bin", weights.data(), weights.size());
    mebp_session_options options;
    mebp_session_options_init(&options);
    options.threads = 1;
    mebp_bundle_open(folder.c_str(), &bundle, nullptr);
    mebp_session_create(bundle, &options, &handle, nullptr);
  }
  TinySession(const TinySession &) = delete;
  ~TinySession() {
    mebp_session_destroy(handle);
    mebp_bundle_close(bundle);
  }

  mebp_bundle *bundle = nullptr;
  mebp_session *handle = nullptr;
};

} // namespace mebp::fuzz
