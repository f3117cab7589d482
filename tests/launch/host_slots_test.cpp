#include "launch/host_slots.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

using Texts = std::vector<std::string>;

GpuList gpus(int count) {
  GpuList list;
  for (int index = 0; index < count; ++index) {
    list.gpus.push_back(
        {.uuid = "GPU-" + std::string(1, static_cast<char>('a' + index)), .name = "Fake GPU"});
  }
  return list;
}

std::vector<CpuSet> cores(int count) {
  std::vector<CpuSet> all;
  for (int core = 0; core < count; ++core) all.push_back({core});
  return all;
}

Texts uuids(const std::vector<GpuInfo>& list) {
  Texts all;
  for (const GpuInfo& gpu : list) all.push_back(gpu.uuid);
  return all;
}

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChooseGpus, TakesAllNoneANumberOrAList) {
  const GpuList host = gpus(3);
  EXPECT_EQ(uuids(choose_gpus("all", host)), (Texts{"GPU-a", "GPU-b", "GPU-c"}));
  EXPECT_EQ(uuids(choose_gpus("none", host)), Texts());
  EXPECT_EQ(uuids(choose_gpus("2", host)), (Texts{"GPU-a", "GPU-b"}));
  EXPECT_EQ(uuids(choose_gpus("2,0", host)), (Texts{"GPU-c", "GPU-a"}));
  EXPECT_EQ(uuids(choose_gpus("1,", host)), Texts{"GPU-b"});
  EXPECT_EQ(uuids(choose_gpus("GPU-b,2", host)), (Texts{"GPU-b", "GPU-c"}));
}

TEST(ChooseGpus, SaysWhatIsThere) {
  const GpuList host = gpus(2);
  EXPECT_EQ(refusal([&] { choose_gpus("3", host); }),
            "--gpus 3: this host has 2 GPUs; ask for as many or fewer");
  EXPECT_EQ(refusal([&] { choose_gpus("GPU-x", host); }),
            "--gpus: no GPU 'GPU-x' here; there are 0 (GPU-a), 1 (GPU-b)");
  EXPECT_EQ(refusal([&] { choose_gpus("0,2", host); }),
            "--gpus: no GPU '2' here; there are 0 (GPU-a), 1 (GPU-b)");
  EXPECT_EQ(refusal([&] { choose_gpus("0,GPU-a", host); }), "--gpus 0,GPU-a: GPU-a is named twice");
  EXPECT_EQ(refusal([&] { choose_gpus(",", host); }),
            "--gpus ',' names none; give all, none, a number or a list");
  GpuList none;
  none.trouble = "NVML does not start";
  EXPECT_EQ(refusal([&] { choose_gpus("1", none); }),
            "--gpus 1: this host has 0 GPUs: NVML does not start; --gpus none computes on the CPU");
  EXPECT_EQ(refusal([&] { choose_gpus("GPU-x", none); }),
            "--gpus: no GPU 'GPU-x' here; there is none (--gpus none computes on the CPU)");
}

TEST(DealSlots, PutsNeighboursOnAGpuUnderOneDaemon) {
  const HostSlots host = deal_slots({.processes_per_gpu = 2}, gpus(2), cores(4));
  ASSERT_EQ(host.slots.size(), 4U);
  const Texts wanted{"GPU-a", "GPU-a", "GPU-b", "GPU-b"};
  for (std::size_t at = 0; at < 4; ++at) {
    EXPECT_EQ(host.slots[at].gpu, wanted[at]);
    EXPECT_EQ(host.slots[at].daemon, 0);
    EXPECT_EQ(host.slots[at].cpus, CpuSet{static_cast<int>(at)});
  }
  EXPECT_EQ(host.daemons, Texts{"GPU-a,GPU-b"});
}

TEST(DealSlots, NeedsNoDaemonForOneProcessPerGpu) {
  const HostSlots host = deal_slots({}, gpus(2), cores(4));
  ASSERT_EQ(host.slots.size(), 2U);
  EXPECT_EQ(host.slots[1].gpu, "GPU-b");
  EXPECT_EQ(host.slots[1].daemon, -1);
  EXPECT_EQ(host.slots[1].cpus, (CpuSet{2, 3}));
  EXPECT_TRUE(host.daemons.empty());
}

TEST(ChooseGpus, RefusesInstancesOfOneCard) {
  GpuList list = gpus(3);
  for (GpuInfo& gpu : list.gpus) {
    gpu.bus_id = gpu.uuid == "GPU-c" ? "0000:5e:00.0" : "0000:3b:00.0";
    gpu.is_instance = true;
  }
  EXPECT_EQ(
      refusal([&] { choose_gpus("all", list); }),
      "--gpus all: GPU-a and GPU-b are MIG instances of one card, which cannot exchange "
      "gradients; choose one instance of each card (--gpus with indices or UUIDs), or start a "
      "job on each");
  EXPECT_EQ(uuids(choose_gpus("0,2", list)), (Texts{"GPU-a", "GPU-c"}));
  EXPECT_EQ(uuids(choose_gpus("1", list)), Texts{"GPU-a"});
}

TEST(DealSlots, GivesEachInstanceADaemonOfItsOwn) {
  GpuList list = gpus(2);
  for (GpuInfo& gpu : list.gpus) gpu.is_instance = true;
  const HostSlots host = deal_slots({.processes_per_gpu = 2}, list, cores(1));
  EXPECT_EQ(host.daemons, (Texts{"GPU-a", "GPU-b"}));
  EXPECT_EQ(host.slots[1].daemon, 0);
  EXPECT_EQ(host.slots[2].daemon, 1);
}

TEST(DealSlots, KeepsWholeGpusTogetherAndApartFromInstances) {
  const auto dealt = [](const std::vector<bool>& instances) {
    GpuList list = gpus(static_cast<int>(instances.size()));
    for (std::size_t at = 0; at < instances.size(); ++at) {
      list.gpus[at].is_instance = instances[at];
    }
    return deal_slots({.processes_per_gpu = 2}, list, cores(1));
  };
  const auto daemon_of_each = [](const HostSlots& host) {
    std::vector<int> daemons;
    for (std::size_t at = 0; at < host.slots.size(); at += 2) {
      EXPECT_EQ(host.slots[at].daemon, host.slots[at + 1].daemon) << host.slots[at].gpu;
      daemons.push_back(host.slots[at].daemon);
    }
    return daemons;
  };
  const HostSlots around = dealt({false, true, true, false});
  EXPECT_EQ(around.daemons, (Texts{"GPU-a,GPU-d", "GPU-b", "GPU-c"}));
  EXPECT_EQ(daemon_of_each(around), (std::vector<int>{0, 1, 2, 0}));
  const HostSlots after = dealt({true, false, true, false});
  EXPECT_EQ(after.daemons, (Texts{"GPU-a", "GPU-b,GPU-d", "GPU-c"}));
  EXPECT_EQ(daemon_of_each(after), (std::vector<int>{0, 1, 2, 1}));
}

TEST(DealSlots, PutsRanksOnTheCpuWhereThereIsNoGpu) {
  const HostSlots host = deal_slots({.processes_per_gpu = 3}, {}, cores(3));
  ASSERT_EQ(host.slots.size(), 3U);
  EXPECT_EQ(host.slots[2].gpu, "");
  EXPECT_EQ(host.slots[2].daemon, -1);
  EXPECT_EQ(host.slots[2].cpus, CpuSet{2});
  EXPECT_EQ(deal_slots({.gpus = "none"}, gpus(2), cores(2)).slots.size(), 1U);
}

TEST(ProcessesOfOtherHosts, AreWhatTheRequestSays) {
  EXPECT_EQ(processes_of_other_hosts({.gpus = "4", .processes_per_gpu = 2}), 8);
  EXPECT_EQ(processes_of_other_hosts({.gpus = "1,3,GPU-x", .processes_per_gpu = 2}), 6);
  EXPECT_EQ(processes_of_other_hosts({.gpus = "GPU-x"}), 1);
  EXPECT_EQ(processes_of_other_hosts({.gpus = "none", .processes_per_gpu = 5}), 5);
  EXPECT_NE(refusal([] { processes_of_other_hosts({}); }).find("say how many each of them has"),
            std::string::npos);
  EXPECT_NE(refusal([] { processes_of_other_hosts({.gpus = "0"}); }), "no error");
  for (const char* many : {"1025", "4294967297"}) {
    EXPECT_EQ(refusal([&] { processes_of_other_hosts({.gpus = many}); }),
              fmt::format("--gpus {}: no host has as many; give at most 1024", many));
  }
  EXPECT_EQ(processes_of_other_hosts({.gpus = "2", .processes_per_gpu = 60}), 120);
  EXPECT_EQ(processes_of_other_hosts({.gpus = "none", .processes_per_gpu = 61}), 61);
  EXPECT_EQ(refusal([] { processes_of_other_hosts({.gpus = "2", .processes_per_gpu = 61}); }),
            "--ranks-per-gpu 61: CUDA MPS takes 60 processes a GPU at most, with any driver; ask "
            "for fewer, or use --colocation folded");
}

TEST(DealSlots, RefusesMoreProcessesThanMpsTakes) {
  GpuList list = gpus(1);
  list.cuda_version = 13000;
  EXPECT_EQ(
      refusal([&] { deal_slots({.processes_per_gpu = 49}, list, cores(1)); }),
      "--ranks-per-gpu 49: CUDA MPS takes 48 processes a GPU with this driver; ask for fewer, "
      "or use --colocation folded");
  list.cuda_version = 13010;
  EXPECT_EQ(deal_slots({.processes_per_gpu = 60}, list, cores(1)).slots.size(), 60U);
  EXPECT_NE(refusal([&] { deal_slots({.processes_per_gpu = 61}, list, cores(1)); }), "no error");
}

TEST(DealSlots, RefusesMoreProcessesThanCpusUnlessTheyAreMeant) {
  const auto refused = [](int processes, const std::vector<CpuSet>& here) {
    return refusal([&] { deal_slots({.processes_per_gpu = processes}, {}, here); });
  };
  EXPECT_EQ(refused(1000, cores(2)),
            "--ranks-per-gpu 1000: the ranks compute on the CPU, and this host has 2 CPUs for "
            "them; ask for as many or fewer, use --colocation folded, or say with --oversubscribe "
            "that it is meant");
  EXPECT_EQ(refused(2, cores(2)), "no error");
  // A core of two hardware threads, as nproc counts them.
  EXPECT_EQ(refused(2, {{0, 4}}), "no error");
  EXPECT_NE(refused(3, {{0, 4}}), "no error");
  EXPECT_EQ(deal_slots({.processes_per_gpu = 61, .oversubscribe = true}, {}, cores(1)).slots.size(),
            61U);
  // On GPUs the cores are no limit.
  EXPECT_EQ(deal_slots({.processes_per_gpu = 4}, gpus(2), cores(1)).slots.size(), 8U);
}

TEST(DealSlots, RefusesGpusThatNobodyElseMayUse) {
  GpuList list = gpus(2);
  list.gpus[1].prohibited = true;
  EXPECT_EQ(refusal([&] { deal_slots({}, list, cores(1)); })
                .rfind("GPU-b (Fake GPU) is in compute "
                       "mode 'prohibited'",
                       0),
            0U);
  list.gpus[1].prohibited = false;
  list.gpus[1].exclusive = true;
  EXPECT_EQ(refusal([&] { deal_slots({.processes_per_gpu = 2}, list, cores(1)); }), "no error");
  list.gpus[1].busy = true;
  EXPECT_EQ(refusal([&] { deal_slots({.processes_per_gpu = 2}, list, cores(1)); })
                .rfind("GPU-b (Fake GPU) is in compute mode 'exclusive process', and a process "
                       "holds it",
                       0),
            0U);
  EXPECT_EQ(deal_slots({.gpus = "1"}, list, cores(1)).slots.size(), 1U);
  const SlotRequest reuse{.processes_per_gpu = 2, .reuse_mps = true};
  EXPECT_EQ(refusal([&] { deal_slots(reuse, list, cores(1)); }), "no error");
}

TEST(WarnOfOtherUsers, NamesTheirGpusInOneLine) {
  GpuList list = gpus(3);
  testing::internal::CaptureStderr();
  list.gpus[1].busy = true;
  warn_of_other_users(list.gpus);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  list.gpus[0].processes_of_others = 1;
  list.gpus[2].processes_of_others = 3;
  testing::internal::CaptureStderr();
  warn_of_other_users(list.gpus);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: other users compute on GPUs of this job: 1 process on GPU-a (Fake GPU), 3 "
            "processes on GPU-c (Fake GPU); the ranks share them, or choose others with --gpus\n");
}

TEST(ListOnceFree, WaitsForWhatTheRequestChooses) {
  GpuList held = gpus(2);
  held.gpus[1].exclusive = held.gpus[1].busy = true;
  int looks = 0;
  const auto freed_at_third_look = [&] {
    GpuList list = held;
    list.gpus[1].busy = ++looks < 3;
    return list;
  };
  testing::internal::CaptureStderr();
  EXPECT_FALSE(list_once_free({}, freed_at_third_look, 60.0).gpus[1].busy);
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "a process still holds GPU-b (Fake GPU), which takes one at a time; waiting for it, "
            "60 s at most\n")
      << "said once";
  // What others hold meanwhile is for deal_slots() to refuse.
  EXPECT_TRUE(list_once_free(
                  {}, [&] { return held; }, 0.0)
                  .gpus[1]
                  .busy);
  looks = 0;
  list_once_free({.gpus = "1"}, freed_at_third_look, 60.0);
  EXPECT_EQ(looks, 1) << "the other GPU is not asked for";
}

}  // namespace
}  // namespace tandem
