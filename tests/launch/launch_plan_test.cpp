#include "launch/launch_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/error.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using Texts = std::vector<std::string>;

LaunchPlan plan() {
  LaunchPlan made;
  made.processes_per_host = 4;
  made.program = "/opt/tandem";
  made.rank.slot.gpus = "0,1";
  made.rank.slot.processes_per_gpu = 2;
  made.rank.slot.sm_percent = 30;
  made.rank.job = "abc";
  made.rank.command = {"train", "run file.toml", "--set", "model.name='x'"};
  return made;
}

constexpr const char* rank_words =
    "/opt/tandem launch-rank --job abc --gpus 0,1 --processes 2 --sm-percent 30 -- train "
    "'run file.toml' --set 'model.name='\\''x'\\'''";

TEST(StartCommand, OfOneHost) {
  EXPECT_EQ(shell_line(start_command(plan(), Starter::mpirun, false)),
            std::string("mpirun -q --oversubscribe --bind-to none -n 4 ") + rank_words);
  EXPECT_EQ(start_command(plan(), Starter::mpirun, true)[1], "--allow-run-as-root");
  LaunchPlan speaking = plan();
  speaking.mpirun_speaks = true;
  const Texts words = start_command(speaking, Starter::mpirun, false);
  EXPECT_EQ(std::ranges::count(words, "-q"), 0);
}

TEST(StartCommand, OfSeveralHosts) {
  LaunchPlan two = plan();
  two.hosts = {"node-a", "node-b"};
  two.host_count = 2;
  EXPECT_EQ(shell_line(start_command(two, Starter::mpirun, false)),
            std::string("mpirun --oversubscribe --bind-to none --host node-a:4,node-b:4 -n 8 ") +
                rank_words);
  EXPECT_EQ(shell_line(start_command(two, Starter::srun, false)),
            std::string("srun --mpi=pmix --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpu-bind=none "
                        "--gpu-bind=none --kill-on-bad-exit=1 --nodelist=node-a,node-b ") +
                rank_words);
  // srun hands on the whole environment.
  two.forwarded = {"NCCL_SOCKET_IFNAME", "TANDEM_TUNE"};
  EXPECT_NE(shell_line(start_command(two, Starter::mpirun, false))
                .find(" -x NCCL_SOCKET_IFNAME -x TANDEM_TUNE -n 8 "),
            std::string::npos);
  EXPECT_EQ(shell_line(start_command(two, Starter::srun, false)).find("NCCL"), std::string::npos);
}

TEST(StartCommand, LeadsNobodyToAnotherDaemonOfMps) {
  LaunchPlan on_gpus = plan();
  on_gpus.on_gpus = true;
  const EnvironmentChanges none{{"CUDA_MPS_PIPE_DIRECTORY", "/nonexistent"}};
  EXPECT_EQ(start_environment(on_gpus), none);
  const auto line = [&] { return shell_line(start_command(on_gpus, Starter::mpirun, false)); };
  // mpirun hands its environment on to ranks of its own host.
  EXPECT_EQ(line(), std::string("mpirun -q --oversubscribe --bind-to none -n 4 ") + rank_words);
  on_gpus.hosts = {"node-a", "node-b"};
  on_gpus.host_count = 2;
  EXPECT_EQ(line(), std::string("mpirun --oversubscribe --bind-to none --host node-a:4,node-b:4 "
                                "-x CUDA_MPS_PIPE_DIRECTORY -n 8 ") +
                        rank_words);
  const std::string text = plan_text(on_gpus, {}, false);
  for (const char* part : {"\n  CUDA_MPS_PIPE_DIRECTORY=/nonexistent mpirun --oversub",
                           "\n  CUDA_MPS_PIPE_DIRECTORY=/nonexistent srun --mpi=pmix "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in:\n" << text;
  }
}

TEST(StartCommand, LeavesTheEnvironmentWithoutGpusAndForTheUsersDaemon) {
  LaunchPlan reusing = plan();
  reusing.on_gpus = true;
  reusing.rank.slot.reuse_mps = true;
  for (LaunchPlan each : {plan(), reusing}) {
    each.hosts = {"node-a", "node-b"};
    EXPECT_EQ(start_environment(each), EnvironmentChanges());
    const Texts words = start_command(each, Starter::mpirun, false);
    EXPECT_EQ(std::ranges::count(words, "-x"), 0);
    EXPECT_EQ(plan_text(each, {}, false).find("CUDA_MPS_PIPE_DIRECTORY"), std::string::npos);
  }
}

TEST(StartCommand, InsideAJobStepOverlapsIt) {
  LaunchPlan nested = plan();
  nested.inside_step = true;
  EXPECT_NE(shell_line(start_command(nested, Starter::srun, false)).find(" --overlap "),
            std::string::npos);
  EXPECT_EQ(shell_line(start_command(nested, Starter::mpirun, false)).find("--overlap"),
            std::string::npos);
}

// Slurm's default lets 30 s pass between SIGTERM and SIGKILL, which is more than mpirun ever does.
TEST(EndingPatience, IsLongerThanTheStarterTakes) {
  LaunchPlan made = plan();
  const auto one_host = ending_patience(made);
  made.host_count = 2;
  EXPECT_GT(ending_patience(made), one_host);
  made.starter = Starter::srun;
  made.host_count = 1;
  EXPECT_GT(ending_patience(made), std::chrono::seconds(30));
}

TEST(ReadHosts, TakesAListOrAHostfile) {
  EXPECT_EQ(read_hosts("a,b"), (Texts{"a", "b"}));
  const TemporaryFolder folder;
  const std::string file = (folder / "hosts").string();
  std::ofstream(file) << "# ours\nnode-a slots=8\n\nnode-b # slow\n";
  testing::internal::CaptureStderr();
  EXPECT_EQ(read_hosts(file), (Texts{"node-a", "node-b"}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            fmt::format("warning: --hosts {}:2: 'slots=8' is ignored; how many processes each host "
                        "gets say --gpus and --ranks-per-gpu\n",
                        file));
  std::ofstream(file) << "node-a slots=8\nnode-b node-c\n";
  EXPECT_NE(message_of<InputError>([&] {
              read_hosts(file);
            }).find(":2: 'node-b node-c': expected one host a line"),
            std::string::npos);
  EXPECT_THROW(read_hosts(","), InputError);
  EXPECT_THROW(read_hosts("a,b,a"), InputError);
  EXPECT_EQ(read_hosts("10.0.0.7,node-1.x_y"), (Texts{"10.0.0.7", "node-1.x_y"}));
  for (const char* name : {"-x", "a b", "a;b", "$(id)", "a:4"}) {
    EXPECT_NE(message_of<InputError>([&] {
                read_hosts(std::string("c,") + name);
              }).find(std::string("'") + name + "' is no host's name"),
              std::string::npos)
        << name;
  }
  EXPECT_NE(message_of<InputError>([] { read_hosts("./hosts"); }).find("./hosts: no such file"),
            std::string::npos);
  EXPECT_NE(message_of<InputError>([] { read_hosts("/dev/null"); }).find("no ordinary file"),
            std::string::npos);
}

TEST(LocalPlaceOf, TheInnermostLauncher) {
  const auto place = [](const std::map<std::string, std::string>& variables) {
    return read_local_place([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  const LocalPlace both = place({{"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                 {"SLURM_LOCALID", "0"}});
  EXPECT_EQ(both.rank, 3);
  EXPECT_EQ(both.size, 4);
  EXPECT_EQ(place({{"SLURM_LOCALID", "2"}}).rank, 2);
  EXPECT_THROW(place({}), InputError);
}

TEST(SlotEnvironment, NamesGpuDaemonAndShare) {
  const SlotRequest request{.sm_percent = 25};
  const EnvironmentChanges wanted{{"CUDA_VISIBLE_DEVICES", "GPU-a"},
                                  {"CUDA_MPS_PIPE_DIRECTORY", "/p"},
                                  {"CUDA_MPS_LOG_DIRECTORY", "/l"},
                                  {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"}};
  EXPECT_EQ(slot_environment({.gpu = "GPU-a", .daemon = 0}, request, "/p", "/l"), wanted);
  EXPECT_EQ(slot_environment({.gpu = "GPU-a"}, {}, "", ""),
            (EnvironmentChanges{{"CUDA_VISIBLE_DEVICES", "GPU-a"},
                                {"CUDA_MPS_PIPE_DIRECTORY", "/nonexistent"}}));
  EXPECT_EQ(slot_environment({}, request, "", ""), EnvironmentChanges());
  // An empty list, unlike none, shows CUDA no GPU.
  EXPECT_EQ(slot_environment({}, {.gpus = "none"}, "", ""),
            (EnvironmentChanges{{"CUDA_VISIBLE_DEVICES", ""}}));
}

TEST(PlanText, SaysWhatEachProcessGets) {
  HostSlots slots;
  slots.slots = {{.gpu = "GPU-a", .gpu_name = "Fake GPU", .daemon = 0, .cpus = {0, 1}},
                 {.gpu = "GPU-a", .gpu_name = "Fake GPU", .daemon = 0, .cpus = {2, 3}}};
  slots.daemons = {"GPU-a"};
  const std::string text = plan_text(plan(), slots, false);
  for (const char* part :
       {"4 processes on 1 host, 4 on each\n", "process 1: Fake GPU (GPU-a), cores 2-3\n",
        "CUDA_VISIBLE_DEVICES=GPU-a CUDA_MPS_PIPE_DIRECTORY=", "/p0 CUDA_MPS_LOG_DIRECTORY=",
        "/l0 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30 TANDEM_SHARED_MEMORY_FOLDER=/dev/shm/",
        " OMPI_MCA_btl_vader_backing_directory=/dev/shm/", "MPS: 1 private daemon\n",
        "mpirun (what is started):\n  mpirun ", "srun:\n  srun "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in:\n" << text;
  }
}

}  // namespace
}  // namespace tandem
