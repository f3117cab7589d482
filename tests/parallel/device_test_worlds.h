#pragma once

#include "parallel/device_test.h"
#include "parallel/rank_devices.h"
#include "parallel/staging_communicator.h"
#include "parallel/test_worlds.h"

// The worlds of device kinds over ranks with a GPU each. A test program names its kind once, by
// TANDEM_DEVICE_TEST_WORLDS.

namespace tandem {

template <typename DeviceKind>
class DeviceTestWorlds final : public TestWorlds {
 public:
  explicit DeviceTestWorlds(const MpiSession& session)
      : hosts_(session.make_world(patient_options())),
        context_(choose_device(*hosts_, visible_gpus())),
        gpus_(*hosts_, context_),
        staging_(context_, gpus_) {
    current = this;
  }
  Communicator& world() override { return staging_; }
  Communicator* splitting() override { return nullptr; }

  CudaContext& gpu() { return context_; }
  Communicator& gpus() { return gpus_; }
  Communicator& hosts() { return *hosts_; }

  /// The program's only ones.
  static inline DeviceTestWorlds* current = nullptr;

 private:
  std::unique_ptr<Communicator> hosts_;
  CudaContext context_;
  DeviceKind gpus_;
  StagingCommunicator staging_;
};

}  // namespace tandem

#define TANDEM_DEVICE_TEST_WORLDS(DeviceKind)                                      \
  namespace tandem {                                                               \
  CudaContext& gpu() { return DeviceTestWorlds<DeviceKind>::current->gpu(); }      \
  Communicator& gpus() { return DeviceTestWorlds<DeviceKind>::current->gpus(); }   \
  Communicator& hosts() { return DeviceTestWorlds<DeviceKind>::current->hosts(); } \
  std::unique_ptr<TestWorlds> make_test_worlds(const MpiSession& session) {        \
    return std::make_unique<DeviceTestWorlds<DeviceKind>>(session);                \
  }                                                                                \
  }  // namespace tandem
