#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

// A library that takes NVTX ranges, as a profiler's: NVTX loads what NVTX_INJECTION64_PATH names.
// It writes a line for each begin and end to the file $TANDEM_RANGES/RANK: "THREAD push NAME" and
// "THREAD pop".

namespace {

int open_record() {
  const char* const folder = std::getenv("TANDEM_RANGES");
  if (folder == nullptr) return -1;
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const std::string file = std::string(folder) + "/" + (rank == nullptr ? "0" : rank);
  return ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

int record() {
  static const int descriptor = open_record();
  return descriptor;
}

/// Lines of several threads do not mix: each is one write, to the file's end.
void write_line(const std::string& text) {
  const std::string line = std::to_string(::gettid()) + " " + text + "\n";
  if (::write(record(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::abort();
  }
}

int push(const char* name) {
  write_line(std::string("push ") + name);
  return NVTX_NO_PUSH_POP_TRACKING;
}

int push_attributes(const nvtxEventAttributes_t* attributes) {
  return push(attributes->message.ascii);
}

int pop() {
  write_line("pop");
  return NVTX_NO_PUSH_POP_TRACKING;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (record() < 0 || callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0 ||
      size <= NVTX_CBID_CORE_RangePop) {
    return 0;
  }
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push_attributes);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
