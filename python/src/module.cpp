// SPDX-License-Identifier: Apache-2.0
#include "module.h"
#include "calls.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "format/adapters.h"
#include "format/byte_size.h"
#include "format/objectives.h"
#include "format/optimizers.h"
#include "format/option_help.h"
#include "format/target_modules.h"
#include "format/tensor_names.h"
#include "platform/free_memory.h"

namespace mebp::python {

void check(mebp_code code, const mebp_error &error) {
  if (code == MEBP_OK)
    return;
  nb::object type = nb::module_::import_("mebp.errors").attr("Error");
  // The library's lines are UTF-8; what a transport of another release says may be anything.
  nb::object line =
      nb::steal(PyUnicode_DecodeUTF8(error.message, std::char_traits<char>::length(error.message), "backslashreplace"));
  PyErr_SetObject(type.ptr(), line.ptr());
  throw nb::python_error();
}

FloatResult makeArray(const std::vector<size_t> &shape) {
  size_t count = 1;
  for (size_t extent : shape)
    count *= extent;
  std::unique_ptr<float[]> memory(new float[count]); // not make_unique, which would write it all first
  nb::capsule owner(memory.get(), [](void *pointer) noexcept { delete[] static_cast<float *>(pointer); });
  return FloatResult(memory.release(), shape.size(), shape.data(), owner);
}

std::vector<size_t> shapeOf(const mebp_tensor_info &info) {
  if (info.rank == 1)
    return {static_cast<size_t>(info.columns)};
  return {static_cast<size_t>(info.rows), static_cast<size_t>(info.columns)};
}

static uint64_t byteSize(const std::string &text) {
  uint64_t bytes = 0;
  if (std::string wrong = format::parseByteSize(text, bytes); !wrong.empty())
    throw nb::value_error(wrong.c_str());
  return bytes;
}

} // namespace mebp::python

namespace mebp::python {

// Names, the default first, and whether each takes losses instead of gradients.
static std::vector<std::pair<std::string, bool>> optimizers() {
  std::vector<std::pair<std::string, bool>> list;
  for (const format::OptimizerTraits &traits : format::optimizers)
    list.emplace_back(traits.name, traits.forwardOnly);
  return list;
}

// Rows of format/adapters.h by name, the default first.
static nb::dict adapters() {
  nb::dict all;
  for (const format::AdapterTraits &traits : format::adapters) {
    nb::dict row;
    row["title"] = traits.title;
    row["formula"] = traits.formula;
    row["symbol"] = traits.symbol;
    row["is_remote"] = traits.isRemote;
    row["suffix"] = std::string(format::factorSuffix(traits.trained));
    row["file"] = traits.file;
    nb::list options;
    for (const char *option : traits.options)
      if (option)
        options.append(option);
    row["options"] = options;
    all[traits.name] = row;
  }
  return all;
}

// Rows of format/objectives.h by name, the default first.
static nb::dict objectives() {
  nb::dict all;
  for (const format::ObjectiveTraits &traits : format::objectives) {
    nb::dict row;
    row["data"] = traits.data;
    row["form"] = traits.form;
    row["sums_sequences"] = traits.sumsSequences;
    row["writes"] = traits.writes;
    row["has_values"] = traits.hasValues;
    row["compares"] = traits.compares;
    all[traits.name] = row;
  }
  return all;
}

// Of each option that mebpc hands on as it stands: name, what its value is called, help, default.
static std::vector<std::array<std::string, 4>> compileOptions() {
  std::vector<std::array<std::string, 4>> list;
  for (const format::OptionText &option : format::options)
    if (option.group)
      list.push_back({option.name, option.value, helpOf(option), option.standard});
  return list;
}

// Bytes, where the system tells.
static std::optional<uint64_t> freeBytes(const std::string &root) { return platform::findFreeBytes(root); }

// Options that only some optimizers have.
static std::vector<mebp_optimizer_option_info> optimizerOptionInfos() {
  std::vector<mebp_optimizer_option_info> infos(mebp_optimizer_option_count());
  for (uint32_t i = 0; i < infos.size(); ++i) {
    mebp_error error;
    check(mebp_optimizer_option_get_info(i, &infos[i], &error), error);
  }
  return infos;
}

// Of each option that several commands have: name, what its value is called, help, default.
static std::vector<std::array<std::string, 4>> options() {
  std::vector<std::array<std::string, 4>> list;
  for (const format::OptionText &option : format::options)
    list.push_back({option.name, option.value, helpOf(option), option.standard});
  for (const mebp_optimizer_option_info &info : optimizerOptionInfos())
    list.push_back({info.name, info.written, info.help, ""});
  return list;
}

// Of each of these: name, how many numbers it is, whether they are whole, and, where it is
// one of several names, these.
static nb::list optimizerOptions() {
  nb::list all;
  for (const mebp_optimizer_option_info &info : optimizerOptionInfos()) {
    std::vector<std::string> choices;
    for (const char *const *choice = info.choices; choice && *choice; ++choice)
      choices.emplace_back(*choice);
    all.append(nb::make_tuple(info.name, info.numbers, info.is_whole, choices));
  }
  return all;
}

// Of each option of a session that packages have: its name, its field in C, what it is (flag, count, number, size, path
// or choice), what it is for, and what holds where it is not given.
static std::vector<std::array<std::string, 5>> sessionOptions() {
  constexpr const char *kinds[] = {"flag", "count", "number", "size", "path", "choice"};
  std::vector<std::array<std::string, 5>> list;
  for (uint32_t i = 0; i < mebp_session_option_count(); ++i) {
    mebp_session_option_info info;
    mebp_session_option_info_init(&info);
    mebp_error error;
    check(mebp_session_option_get_info(i, &info, &error), error);
    if (info.is_of_packages)
      list.push_back({info.called, info.name, kinds[info.kind], info.help, info.standard ? info.standard : ""});
  }
  return list;
}

// All that are known: name, whether it is there, what it is or why not, bytes of memory, what its self-test found.
static nb::list devices() {
  nb::list all;
  for (uint32_t i = 0; i < mebp_device_count(); ++i) {
    mebp_device_info info;
    mebp_device_info_init(&info);
    mebp_error error;
    check(mebp_device_get_info(i, &info, &error), error);
    all.append(nb::make_tuple(info.name, info.is_there, info.description, info.memory_bytes, info.tested));
  }
  return all;
}

static mebp_backend findDevice(const std::string &name) {
  mebp_error error;
  mebp_backend device;
  check(mebp_device_find(name.c_str(), &device, &error), error);
  return device;
}

// What the self-test of the device finds, as JSON.
static std::string testDevice(const std::string &name) {
  mebp_error error;
  mebp_backend device = findDevice(name);
  mebp_device_test *test = nullptr;
  mebp_code code;
  RunningCall running;
  {
    nb::gil_scoped_release unlock;
    code = mebp_device_test_create(device, &test, &error);
  }
  check(code, error);
  std::string json = mebp_device_test_json(test);
  mebp_device_test_destroy(test);
  return json;
}

static std::pair<std::string, std::string> loraFactors(const std::string &weight) {
  std::string_view layer = format::layerOf(weight);
  return {format::factorOf(layer, format::Factor::A), format::factorOf(layer, format::Factor::B)};
}

static std::string calibrate(const std::string &device, uint32_t threads, bool quick) {
  mebp_error error;
  mebp_calibration_options options;
  mebp_calibration_options_init(&options);
  options.device = findDevice(device);
  options.threads = threads;
  options.quick = quick;
  options.goes_on = [](void *) {
    nb::gil_scoped_acquire lock;
    return PyErr_CheckSignals() == 0;
  };
  mebp_calibration *made = nullptr;
  mebp_code code;
  {
    nb::gil_scoped_release unlock;
    code = mebp_calibration_create(&options, &made, &error);
  }
  if (PyErr_Occurred()) // Ctrl-C, and what is made of it
    throw nb::python_error();
  check(code, error);
  std::string json = mebp_calibration_json(made);
  mebp_calibration_destroy(made);
  return json;
}

} // namespace mebp::python

NB_MODULE(_runtime, module) {
  module.doc() = "The mebp runtime's C API; use mebp.Session.";
  module.attr("__version__") = MEBP_VERSION;
  module.def("byte_size", &mebp::python::byteSize, nanobind::arg("text"), "Bytes of a size such as '64MiB'.");
  module.def("optimizers", &mebp::python::optimizers,
             "Pairs of a name, the default first, and whether it is forward only.");
  module.def("adapters", &mebp::python::adapters,
             "Rows of format/adapters.h as dictionaries, by name, the default first.");
  module.def("objectives", &mebp::python::objectives,
             "Rows of format/objectives.h as dictionaries, by name, the default first.");
  module.def("options", &mebp::python::options,
             "Of each option that several commands have: name, what its value is called, help, default.");
  module.def("free_bytes", &mebp::python::freeBytes, nanobind::arg("root") = "/",
             "What new pages can take without swapping, by proc and sys in a folder; None where that is not told.");
  module.def("stepped_down", &mebp::platform::steppedDown, nanobind::arg("bytes"),
             "A size in steps of an eighth and short.");
  module.def("compile_options", &mebp::python::compileOptions,
             "Of each option that mebpc hands on as it stands: name, what its value is called, help, default.");
  module.def("optimizer_options", &mebp::python::optimizerOptions,
             "Of each option that only some optimizers have: name, numbers in it, whether they are whole, choices.");
  module.def("session_options", &mebp::python::sessionOptions,
             "Of each option of a session: name, field, kind, help, default.");
  module.def("devices", &mebp::python::devices,
             "Of each: name, whether it is there, what it is or why not, bytes, what its self-test found.");
  module.def(
      "check_device", [](const std::string &name) { mebp::python::findDevice(name); }, nanobind::arg("name"),
      "Refuses a name that no device has.");
  module.def("test_device", &mebp::python::testDevice, nanobind::arg("name"),
             "Compares a device's kernels with the CPU's; what was found, as JSON.");
  module.def("lora_factors", &mebp::python::loraFactors, nanobind::arg("weight"),
             "PEFT's names of the two factors that LoRA adds to a weight.");
  module.def("target_pattern", &mebp::format::targetPattern, nanobind::arg("part"), nanobind::arg("names"),
             "PEFT's target_modules for layers of these names in a part of a model.");
  module.def("names_of_target_pattern", &mebp::format::namesOfTargetPattern, nanobind::arg("text"),
             "The names in what target_pattern makes; None where it is another pattern.");
  module.def("calibrate", &mebp::python::calibrate, nanobind::arg("device"), nanobind::arg("threads"),
             nanobind::arg("quick"), "Times a device's kernels; the file that mebpc --rates reads.");
  nanobind::set_leak_warnings(false); // a thread that lasts to the end keeps its session
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(&mebp::python::waitForCalls));
  mebp::python::bindBundle(module);
  mebp::python::bindFolders(module);
  mebp::python::bindGguf(module);
  mebp::python::bindSplit(module);
  mebp::python::bindSession(module);
}
