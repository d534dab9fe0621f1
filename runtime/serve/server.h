// SPDX-License-Identifier: Apache-2.0
//
// The server's half of a split model, for any number of devices: a session for each, over the same mapped weights. A
// session holds activations of one step and keys and values, and nothing of a user beyond that.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "mebp/serve.h"
#include "runtime/bundle/bundle.h"
#include "runtime/generate/generation.h"
#include "runtime/train/engine.h"

namespace mebp {

class Server {
public:
  Status create(Bundle &opened, const mebp_server_options &given);
  // On the calling thread, until the stream has ended.
  void serve(const mebp_transport &stream, const std::string &identity);
  // Ends all sessions and begins no other; on any thread.
  void stop();

private:
  struct Client {
    std::string identity;
    Lasting lasting;
    Engine engine{lasting};
    std::unique_ptr<Generation> generation;
    uint64_t bytes = 0;
  };

  Status greet(const mebp_transport &stream, const std::string &identity, format::Hello &hello,
               std::shared_ptr<Client> &client, bool &isNew);
  Status admit(const std::string &identity, const format::Hello &hello, std::shared_ptr<Client> &out);
  Status reserve(const std::string &identity, uint64_t bytes);
  Status whyFull(uint64_t bytes) const;
  void release(const Client &client);
  Status check(const format::Hello &hello) const;
  // The device's commands, one after another.
  static Status run(Client &client);
  static Status generate(Client &client, const Command &command);
  void log(mebp_log_level level, const std::string &line) const;

  Bundle *bundle = nullptr;
  mebp_server_options options = {};
  std::mutex mutex; // of what follows
  std::map<uint64_t, std::shared_ptr<Client>> clients;
  uint32_t sessions = 0;
  uint64_t taken = 0; // bytes that all have
  bool isStopping = false;
  std::condition_variable changed;
};

} // namespace mebp
