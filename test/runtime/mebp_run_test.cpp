// SPDX-License-Identifier: Apache-2.0
//
// The tool as a user runs it: exit statuses, and what it prints.
#include <csignal>
#include <filesystem>

#include <sys/wait.h>

#include "support/command.h"
#include "support/handles.h"
#include "support/read_calls.h"

using namespace mebp::test;

namespace {

class RunTest : public testing::Test {
protected:
  void SetUp() override { std::filesystem::create_directories(scratch); }
  void TearDown() override { std::filesystem::remove_all(scratch); }

  Outcome run(const std::string &arguments) { return runCommand(std::string(MEBP_RUN) + " " + arguments, scratch); }
  void expectRefusal(const std::string &arguments, const std::string &part) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_EQ(outcome.output, "");
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors << " instead of " << part;
    EXPECT_EQ(outcome.errors.find('\n'), outcome.errors.size() - 1) << outcome.errors;
  }

  std::string tokensBin(uint64_t count) {
    std::vector<int32_t> ids = tinyTokens(count);
    std::string path = scratch + "/tokens.bin";
    writeWhole(path, {reinterpret_cast<const char *>(ids.data()), ids.size() * 4});
    return path;
  }
  std::string numpy(const std::string &shape, const std::string &type, const std::string &data) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize((header.size() + 10 + 64) / 64 * 64 - 10 - 1, ' ');
    header += '\n';
    std::string path = scratch + "/tokens.npy";
    std::string size = {static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
    writeWhole(path, "\x93NUMPY" + std::string("\x01\x00", 2) + size + header + data);
    return path;
  }
  std::string longs(uint64_t count) {
    std::string data;
    for (int32_t id : tinyTokens(count)) {
      int64_t wide = id;
      data.append(reinterpret_cast<const char *>(&wide), 8);
    }
    return data;
  }

  BundleFolder bundle{tinyBundle({})};
  std::string scratch = scratchPath();
};

// Each thread takes 1 MiB of addresses for its stack, and half as many for its workspace.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(RunTest, RefusesThreadsThatTheSystemDoes) {
  Outcome outcome = runCommand("ulimit -v 200000; timeout 60 " + std::string(MEBP_RUN) + " " + bundle.path() +
                                   " --tokens " + tokensBin(23) + " --threads 200",
                               scratch);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.errors, "mebp-run: the system refuses 200 threads; ask for fewer\n");
}
#endif

TEST_F(RunTest, TrainsAndLeavesAnAdapter) {
  Outcome outcome = run(bundle.path() + " --tokens " + tokensBin(23) + " --steps 3 --adapter-out " + scratch +
                        "/adapter --threads 1");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("step 3/3  loss "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("planned 0.5 MB  measured peak "), std::string::npos) << outcome.output;
  OpenBundle opened(bundle.path());
  OpenSession session(opened.handle);
  EXPECT_EQ(mebp_session_load_adapter(session.handle, (scratch + "/adapter").c_str(), nullptr), MEBP_OK);
}

TEST_F(RunTest, ShowsANameThatATerminalWouldObey) {
  expectRefusal("'" + scratch + "/\x1b[2J\xff\n.mebp' --tokens " + tokensBin(23), "/\\x1b[2J\\xff .mebp");
  expectRefusal(bundle.path() + " --tokens '" + scratch + "/\x1b[2J\xff\n.bin'", "/\\x1b[2J\\xff .bin");
  expectRefusal(bundle.path() + " --no-such-\x1b[2J", "--no-such-\\x1b[2J");
}

TEST_F(RunTest, TakesTheBundlesOptimizer) {
  mebp::format::Bundle planned = tinyBundle({});
  planned.mutable_plan()->set_optimizer("sgd");
  planned.mutable_plan()->set_momentum(0.5);
  bundle.writeProgram(planned);
  auto adapterOf = [&](const std::string &options) {
    Outcome outcome = run(bundle.path() + " --tokens " + tokensBin(40) +
                          " --steps 4 --lr 1 --overwrite --adapter-out " + scratch + "/adapter" + options);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return readWhole(scratch + "/adapter/adapter_model.safetensors");
  };
  const std::string own = adapterOf("");
  EXPECT_TRUE(own == adapterOf(" --optimizer sgd --momentum 0.5"));
  EXPECT_TRUE(own == adapterOf(" --optimizer sgd"));
  EXPECT_FALSE(own == adapterOf(" --momentum 0"));
  const std::string lion = adapterOf(" --optimizer lion"); // which has no momentum
  EXPECT_FALSE(own == lion);
  EXPECT_TRUE(lion == adapterOf(" --optimizer lion --betas 0.9,0.99"));
  EXPECT_FALSE(lion == adapterOf(" --optimizer lion --betas=0.1,0.99"));

  planned.mutable_plan()->set_optimizer("a later one");
  bundle.writeProgram(planned);
  expectRefusal(bundle.path() + " --tokens " + tokensBin(40),
                "optimizer number -1 is not in this build; choose adamw, sgd, lion");
  planned.mutable_plan()->set_optimizer("");
  planned.mutable_plan()->set_momentum(0);
  bundle.writeProgram(planned);
  EXPECT_TRUE(adapterOf("") == adapterOf(" --optimizer adamw"));
}

// Those that MEBP_KERNELS may name on this machine, by the refusal of another.
std::vector<std::string> availableKernels(const std::string &refusal) {
  std::string list = refusal.substr(refusal.find(" has ") + 5);
  list = list.substr(0, list.find(';'));
  std::vector<std::string> names;
  for (size_t at = 0; at < list.size(); at = list.find_first_not_of(", ", at + names.back().size()))
    names.push_back(list.substr(at, list.find(',', at) - at));
  return names;
}

TEST_F(RunTest, RunsTheKernelsThatTheEnvironmentNames) {
  std::string arguments = bundle.path() + " --steps 2 --tokens " + tokensBin(20);
  auto runWith = [&](const std::string &kernels, const std::string &options) {
    return runCommand("MEBP_KERNELS=" + kernels + " " + MEBP_RUN + " " + arguments + options, scratch);
  };
  Outcome refused = runWith("avx1024", "");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.output, "");
  std::vector<std::string> names = availableKernels(refused.errors);
  ASSERT_GE(names.size(), 2u) << refused.errors;
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + name;
  EXPECT_EQ(refused.errors,
            "mebp-run: MEBP_KERNELS=avx1024: this CPU has " + list + "; name one of them or unset it\n");
  for (const std::string &name : names) {
    EXPECT_NE(runWith(name, "").output.find(" steps done  kernels " + name + "  planned"), std::string::npos) << name;
    EXPECT_NE(runWith(name, " --json").output.find("\"kernels\": \"" + name + "\""), std::string::npos) << name;
  }
  // By itself it takes the fastest, whichever that is: not one of the last two.
  for (const std::string &nothing : {std::string("unset MEBP_KERNELS; "), std::string("MEBP_KERNELS= ")}) {
    std::string output = runCommand(nothing + MEBP_RUN + " " + arguments, scratch).output;
    EXPECT_TRUE(std::any_of(names.begin(), names.end() - 1, [&](const std::string &name) {
      return output.find(" steps done  kernels " + name + " ") != std::string::npos;
    })) << output;
  }
}

TEST_F(RunTest, LeavesNothingBehindWhereKernelsAreMissing) {
  std::string trace = scratch + "/trace.json";
  EXPECT_EQ(runCommand("MEBP_KERNELS=none " + std::string(MEBP_RUN) + " " + bundle.path() + " --tokens " +
                           tokensBin(20) + " --profile " + trace,
                       scratch)
                .status,
            2);
  EXPECT_FALSE(std::filesystem::exists(trace));
}

TEST_F(RunTest, GoesOnWithTheKernelsOfItsState) {
  std::string arguments = bundle.path() + " --tokens " + tokensBin(20) + " --state " + scratch + "/state --steps ";
  const std::vector<std::string> families = availableKernels(
      runCommand("MEBP_KERNELS=none " + std::string(MEBP_RUN) + " " + arguments + "1", scratch).errors);
  ASSERT_GE(families.size(), 2u);
  for (const std::string &family : families) {
    std::filesystem::remove_all(scratch + "/state");
    ASSERT_EQ(runCommand("MEBP_KERNELS=" + family + " " + MEBP_RUN + " " + arguments + "1", scratch).status, 0);
    for (const std::string &other : {families.front(), families.back()}) {
      std::string resumed = "MEBP_KERNELS=" + other + " " + MEBP_RUN + " " + arguments + "2 --resume";
      Outcome outcome = runCommand("cp -r " + scratch + "/state " + scratch + "/kept; " + resumed, scratch);
      EXPECT_EQ(outcome.status, 0) << outcome.errors;
      EXPECT_NE(outcome.output.find(" steps done  kernels " + family + " "), std::string::npos) << outcome.output;
      EXPECT_EQ(outcome.errors, other == family ? ""
                                                : "mebp-run: the state was saved with " + family +
                                                      " kernels, so these run and not the " + other + " ones\n");
      std::filesystem::remove_all(scratch + "/state");
      std::filesystem::rename(scratch + "/kept", scratch + "/state");
    }
  }
}

TEST_F(RunTest, ReplacesAnEarlierRunOnlyWhenAsked) {
  std::string base = bundle.path() + " --tokens " + tokensBin(20) + " --steps 2";
  std::string state = scratch + "/state", adapter = scratch + "/adapter";
  std::string folders = base + " --state " + state + " --adapter-out " + adapter;
  ASSERT_EQ(run(folders).status, 0);
  std::string saved = readWhole(state + "/state.bin");
  expectRefusal(folders, state + ": holds the state of a run (after step 2); add --resume to go on or --overwrite to "
                                 "start over\n");
  expectRefusal(base + " --adapter-out " + adapter,
                adapter + ": holds an adapter; add --overwrite to replace it or choose another folder\n");
  EXPECT_EQ(readWhole(state + "/state.bin"), saved);
  expectRefusal(folders + " --overwrite --resume", "--resume excludes --overwrite");
  EXPECT_EQ(run(folders + " --overwrite --lr 1e-3").status, 0);
  EXPECT_NE(readWhole(state + "/state.bin"), saved);
  EXPECT_FALSE(std::filesystem::exists(state + "/state.previous.bin"));
  writeWhole(state + "/state.bin", "somebody's");
  expectRefusal(folders + " --overwrite", state + "/state.bin: is not a saved state; choose another folder");
  EXPECT_EQ(readWhole(state + "/state.bin"), "somebody's");
}

TEST_F(RunTest, HasItsFoldersToItself) {
  std::string base = bundle.path() + " --tokens " + tokensBin(20) + " --steps 2";
  for (const char *option : {"--state", "--adapter-out"}) {
    std::string folder = scratch + "/locked";
    mebp_lock *lock = nullptr;
    ASSERT_EQ(mebp_lock_folder(folder.c_str(), &lock, nullptr), MEBP_OK);
    expectRefusal(base + " " + option + " " + folder,
                  folder + ": another run uses this folder; wait until it ends or choose another\n");
    mebp_lock_release(lock);
  }
  std::string both = scratch + "/both";
  Outcome outcome = run(base + " --state " + both + " --adapter-out " + both);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_TRUE(std::filesystem::exists(both + "/state.bin"));
  EXPECT_TRUE(std::filesystem::exists(both + "/adapter_config.json"));
  EXPECT_FALSE(std::filesystem::exists(both + "/.lock"));
}

TEST_F(RunTest, LooksAtMemoryAfterEveryKernelCallIfAsked) {
  std::string arguments = bundle.path() + " --steps 9 --threads 1 --tokens " + tokensBin(23);
  auto readsOf = [&](const std::string &option) {
    uint64_t before = readCalls();
    EXPECT_EQ(run(arguments + option).status, 0);
    return readCalls() - before;
  };
  EXPECT_GT(readsOf(" --sample-memory"), readsOf("") + 400);
}

TEST_F(RunTest, ReadsEveryTokenFormatTheSame) {
  std::string arguments = bundle.path() + " --json --steps 2 --tokens ";
  auto lossesOf = [](const std::string &output) {
    std::string losses;
    for (size_t at = 0; (at = output.find("\"loss\": ", at)) != std::string::npos; ++at)
      losses += output.substr(at, output.find(',', at) - at);
    return losses;
  };
  std::string expected = lossesOf(run(arguments + tokensBin(20)).output);
  EXPECT_NE(expected, "");
  std::vector<int32_t> ids = tinyTokens(20);
  std::string ints(reinterpret_cast<const char *>(ids.data()), 80);
  EXPECT_EQ(lossesOf(run(arguments + numpy("(4, 5)", "<i4", ints)).output), expected);
  EXPECT_EQ(lossesOf(run(arguments + numpy("(4, 5)", "<i8", longs(20))).output), expected);
  EXPECT_EQ(lossesOf(run(arguments + numpy("(20,)", "<i8", longs(20))).output), expected);
}

TEST_F(RunTest, SaysWhatAStepWrites) {
  std::string arguments = bundle.path() + " --steps 1 --tokens " + tokensBin(20);
  std::string disk = " --spill " + std::filesystem::current_path().string();
  EXPECT_EQ(run(arguments).output.find("wrote"), std::string::npos);
  Outcome outcome = run(arguments + disk + " --spill-optimizer");
  EXPECT_NE(outcome.output.find("MB  wrote 0.0 MB\n"), std::string::npos) << outcome.output << outcome.errors;
  // Two checkpoints of 10 tokens of 6; 4 trainables of 12, and two moments of each up to the next multiple of 64 bytes.
  Outcome json = run(arguments + disk + " --spill-optimizer --json");
  EXPECT_NE(json.output.find("\"written_bytes\": 1184}"), std::string::npos) << json.output;
}

TEST_F(RunTest, ResumesWhereItStopped) {
  std::string base = bundle.path() + " --json --tokens " + tokensBin(40) + " ";
  std::string state = " --state " + scratch + "/state ";
  std::string whole = run(base + "--steps 4").output;
  ASSERT_EQ(run(base + state + "--steps 2 --resume").status, 0); // starts, since there is none yet
  Outcome rest = run(base + state + "--steps 4 --resume");
  EXPECT_EQ(rest.status, 0) << rest.errors;
  auto lossOf = [](const std::string &output, int step) {
    size_t at = output.find("{\"step\": " + std::to_string(step) + ", ");
    return at == std::string::npos ? std::string() : output.substr(at, output.find(", \"grad", at) - at);
  };
  EXPECT_EQ(lossOf(rest.output, 2), "");
  EXPECT_NE(lossOf(rest.output, 4), "");
  EXPECT_EQ(lossOf(rest.output, 4), lossOf(whole, 4));
  Outcome finished = run(base + state + "--steps 4 --resume");
  EXPECT_EQ(finished.status, 0);
  EXPECT_NE(finished.errors.find("the run is finished"), std::string::npos) << finished.errors;
  expectRefusal(base + state + "--steps 9 --resume --lr 1e-3", "continue with the same");
  expectRefusal(bundle.path() + " --tokens " + tokensBin(25) + state + "--steps 9 --resume", "other rows");
}

TEST_F(RunTest, StopsAtASignalAndSaves) {
  for (auto [number, status] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143), std::pair(SIGHUP, 129)}) {
    std::signal(number, SIG_DFL); // a job in the background hands down that it is ignored
    // The shell tells its number, which is then the tool's.
    std::string command = "echo $$; exec " + std::string(MEBP_RUN) + " " + bundle.path() + " --tokens " +
                          tokensBin(20) + " --steps 100000000 --state " + scratch + "/state" + std::to_string(number) +
                          " --adapter-out " + scratch + "/adapter" + std::to_string(number);
    FILE *pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    int process = 0;
    ASSERT_EQ(std::fscanf(pipe, "%d", &process), 1);
    bool interrupted = false;
    char line[512];
    // Read to the end: a full pipe would hold the tool up.
    while (std::fgets(line, sizeof(line), pipe))
      if (!interrupted && std::string(line).rfind("step 1/", 0) == 0)
        interrupted = ::kill(process, number) == 0;
    const int ended = ::pclose(pipe);
    EXPECT_EQ(WEXITSTATUS(ended), status);
    EXPECT_TRUE(std::filesystem::exists(scratch + "/state" + std::to_string(number) + "/state.bin"));
    EXPECT_TRUE(std::filesystem::exists(scratch + "/adapter" + std::to_string(number) + "/adapter_config.json"));
  }
}

// A reader that goes away needs no line, a disk without room does.
TEST_F(RunTest, SavesWhereItsOutputCannotBeWritten) {
  std::string command = std::string(MEBP_RUN) + " " + bundle.path() + " --tokens " + tokensBin(20) +
                        " --steps 100000000 --state " + scratch + "/state --adapter-out " + scratch + "/adapter";
  Outcome full = runCommand(command + " > /dev/full", scratch);
  EXPECT_EQ(full.status, 2);
  EXPECT_EQ(full.errors,
            "mebp-run: standard output: cannot be written: No space left on device; the run ends here, let "
            "its output go to a file with room\n");
  EXPECT_TRUE(std::filesystem::exists(scratch + "/state/state.bin"));
  EXPECT_TRUE(std::filesystem::exists(scratch + "/adapter/adapter_config.json"));
  std::filesystem::remove_all(scratch + "/state");
  std::filesystem::remove_all(scratch + "/adapter");
  Outcome gone = runCommand("{ " + command + "; echo $? > " + scratch + "/status; } | head -n 1", scratch);
  EXPECT_EQ(readWhole(scratch + "/status"), "2\n");
  EXPECT_EQ(gone.errors, "");
  EXPECT_TRUE(std::filesystem::exists(scratch + "/state/state.bin"));
  EXPECT_TRUE(std::filesystem::exists(scratch + "/adapter/adapter_config.json"));
}

TEST_F(RunTest, SaysItsVersion) {
  Outcome outcome = run("--version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, std::string("mebp-run ") + mebp_version() + "\n");
}

TEST_F(RunTest, RefusesBadInputInOneLine) {
  std::string tokens = " --tokens " + tokensBin(20);
  expectRefusal("", "bundle");
  expectRefusal("/nowhere.mebp" + tokens, "no bundle at /nowhere.mebp");
  expectRefusal(bundle.path(), "--tokens");
  expectRefusal(bundle.path() + " --tokens /nowhere.npy", "/nowhere.npy: cannot open: No such file");
  writeWhole(scratch + "/text.jsonl", "{\"text\": \"not ids\"}");
  expectRefusal(bundle.path() + " --tokens " + scratch + "/text.jsonl",
                "text.jsonl: ends neither in .npy nor in .bin; --tokens");
  expectRefusal(bundle.path() + tokens + " --optimizer galore", "galore");
  for (const char *rate : {"-1", "nan", "inf"})
    expectRefusal(bundle.path() + tokens + " --lr " + rate, "lr is ");
  for (uint32_t i = 0; i < mebp_optimizer_option_count(); ++i) {
    mebp_optimizer_option_info info;
    mebp_optimizer_option_info_init(&info);
    ASSERT_EQ(mebp_optimizer_option_get_info(i, &info, nullptr), MEBP_OK);
    expectRefusal(bundle.path() + tokens + " --" + info.name + " -2",
                  info.choices ? "-2 is not one of " : std::string("--") + info.name + " is -2; give ");
  }
  expectRefusal(bundle.path() + tokens + " --optimizer lion --momentum 0.5",
                "mebp-run: lion has no option 'momentum'; leave it out, or choose sgd\n");
  expectRefusal(bundle.path() + tokens + " --resume", "--state");
  expectRefusal(bundle.path() + tokens + " --spill-optimizer", "--spill");
  expectRefusal(bundle.path() + tokens + " --spill /nowhere", "/nowhere: cannot make a file here: No such file");
  expectRefusal(bundle.path() + tokens + " --resident-limit 64", "--resident-limit 64 has no unit; write 64MiB");
  expectRefusal(bundle.path() + tokens + " --resident-limit 1KiB", "a resident limit of 1024 bytes is less than");
  expectRefusal(bundle.path() + tokens + " --sequence 6", "compiled for at most 5");
  expectRefusal(bundle.path() + tokens + " --adapter-out /dev/null/x", "/dev/null/x");
  expectRefusal(bundle.path() + " --tokens " + tokensBin(3), "too few for one row");
  expectRefusal(bundle.path() + " --tokens " + numpy("(2, 10)", "<i8", longs(20)), "longer than the compiled 5");
  expectRefusal(bundle.path() + " --tokens " + numpy("(9, 5)", "<i8", longs(20)), "cut off");
  expectRefusal(bundle.path() + " --tokens " + numpy("(4, 5)", "<f4", longs(20)), "neither int32 nor int64");
  expectRefusal(bundle.path() + " --tokens " + numpy("(1, 5)", "<i8", std::string(40, '\x7f')), "not a 32-bit number");
  writeWhole(scratch + "/text.npy", "this is no array");
  expectRefusal(bundle.path() + " --tokens " + scratch + "/text.npy", "not a readable .npy");
  int32_t beyond[5] = {1, 2, 11, 3, 4};
  writeWhole(scratch + "/beyond.bin", {reinterpret_cast<char *>(beyond), 20});
  expectRefusal(bundle.path() + " --tokens " + scratch + "/beyond.bin", "step 1: token 11 at row 0, position 2");
}

} // namespace
