#include "device/gpu_list.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "support/message.h"

namespace tandem {
namespace {

constexpr const char* fake_nvml = TANDEM_FAKE_NVML_FOLDER "/libnvidia-ml.so.1";

// Made-up GPUs: tests/launch/fake_nvml_list.cpp. Read once by the library, so all tests see these.
class ListedGpus : public testing::Test {
 protected:
  static GpuList list() {
    ::setenv("FAKE_GPUS", "GPU-a GPU-b:exclusive:busy GPU-c:instances GPU-d:prohibited", 1);
    return list_gpus(usual_nvml_seconds, fake_nvml);
  }
  static std::vector<std::string> uuids(const std::vector<GpuInfo>& gpus) {
    std::vector<std::string> all;
    for (const GpuInfo& gpu : gpus) all.push_back(gpu.uuid);
    return all;
  }
};

using Uuids = std::vector<std::string>;

TEST_F(ListedGpus, HoldInstancesInPlaceOfTheirCard) {
  const GpuList list = ListedGpus::list();
  EXPECT_EQ(uuids(list.gpus), (Uuids{"GPU-a", "GPU-b", "MIG-GPU-c-0", "MIG-GPU-c-1", "GPU-d"}));
  EXPECT_TRUE(list.gpus[2].is_instance);
  EXPECT_FALSE(list.gpus[0].is_instance);
  EXPECT_EQ(list.trouble, "");
  EXPECT_EQ(list.cuda_version, 13000);
  EXPECT_EQ(list.driver, "580.1");
}

TEST_F(ListedGpus, AreDescribed) {
  const std::vector<GpuInfo> gpus = list().gpus;
  EXPECT_EQ(gpus[0].name, "Fake GPU");
  EXPECT_EQ(gpus[0].bus_id, "0000:3b:00.0");  // as sysfs has it
  EXPECT_EQ(gpus[0].memory_bytes, 1ULL << 30);
  EXPECT_FALSE(gpus[0].exclusive || gpus[0].prohibited || gpus[0].busy);
  EXPECT_TRUE(gpus[1].exclusive && gpus[1].busy);
  EXPECT_TRUE(gpus[4].prohibited);
}

TEST_F(ListedGpus, AreThoseThatAreVisible) {
  const std::vector<GpuInfo> gpus = list().gpus;
  EXPECT_EQ(uuids(visible_gpus_of(gpus, nullptr)), uuids(gpus));
  EXPECT_EQ(uuids(visible_gpus_of(gpus, "1,0")), (Uuids{"GPU-b", "GPU-a"}));
  EXPECT_EQ(uuids(visible_gpus_of(gpus, "MIG-GPU-c-1,GPU-a")), (Uuids{"MIG-GPU-c-1", "GPU-a"}));
  EXPECT_EQ(uuids(visible_gpus_of(gpus, "")), Uuids());
  EXPECT_EQ(uuids(visible_gpus_of(gpus, " 1, 0 ,GPU-d")), (Uuids{"GPU-b", "GPU-a", "GPU-d"}));
  // CUDA shows none where one is named twice.
  EXPECT_EQ(uuids(visible_gpus_of(gpus, "0,1,0")), Uuids());
  // CUDA takes no GPU behind one that is not there.
  EXPECT_EQ(uuids(visible_gpus_of(gpus, "0,-1,1")), Uuids{"GPU-a"});
}

TEST(GpuOrder, OfDifferentModelsMustBeTheSameForAll) {
  const std::vector<GpuInfo> alike{{.uuid = "GPU-a", .name = "A"}, {.uuid = "GPU-b", .name = "A"}};
  std::vector<GpuInfo> unlike = alike;
  unlike[1].name = "B";
  require_one_order({}, "0", nullptr);
  require_one_order(alike, "1", nullptr);
  require_one_order(unlike, nullptr, nullptr);
  require_one_order(unlike, "GPU-b,GPU-a", "FASTEST_FIRST");
  require_one_order(unlike, "1", "PCI_BUS_ID");
  // Instances are no models: CUDA takes them by UUID alone.
  unlike[1].is_instance = true;
  require_one_order(unlike, "0", nullptr);
  unlike[1].is_instance = false;
  for (const char* order : {static_cast<const char*>(nullptr), "FASTEST_FIRST"}) {
    const std::string message =
        message_of<InputError>([&] { require_one_order(unlike, "GPU-a,1", order); });
    EXPECT_EQ(message.find("CUDA_VISIBLE_DEVICES=GPU-a,1 names GPUs by index, and "), 0U);
    EXPECT_NE(message.find("different models (A, B)"), std::string::npos) << message;
  }
}

TEST(GpuDriver, ThatDoesNotAnswerIsTold) {
  ::setenv("FAKE_NVML_HANGS", "1", 1);
  const std::string message = message_of<SystemError>([] { list_gpus(0.5, fake_nvml); });
  ::unsetenv("FAKE_NVML_HANGS");
  std::this_thread::sleep_for(std::chrono::seconds(2));  // until that thread has seen it
  EXPECT_NE(message.find(" has not said for 0.5 s which GPUs there are; "), std::string::npos)
      << message;
}

TEST(NoGpus, AreNoError) {
  const GpuList list = list_gpus(1.0, "/nowhere/libnvidia-ml.so.1");
  EXPECT_TRUE(list.gpus.empty());
  EXPECT_NE(list.trouble.find("NVML cannot be loaded"), std::string::npos) << list.trouble;
}

}  // namespace
}  // namespace tandem
