#include "parallel/host_claim.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "support/scoped_variable.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

/// What a process of its own, which has ended then, has to say.
bool another(const std::function<bool()>& asks) {
  const pid_t process = ::fork();
  if (process == 0) ::_exit(asks() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool another_claims(const std::string& job, const std::string& what) {
  return another([&] { return claims_on_host(job, what, false); });
}

TEST(HostClaim, IsTheFirstProcesssUntilItEnds) {
  const std::string job = "test-" + std::to_string(::getpid());
  EXPECT_TRUE(another_claims(job, "speech"));
  EXPECT_TRUE(claims_on_host(job, "speech", false));
  EXPECT_FALSE(another_claims(job, "speech"));
  EXPECT_FALSE(claims_on_host(job, "speech", true));
  EXPECT_TRUE(another_claims(job, "song"));
  EXPECT_TRUE(another_claims(job + "-2", "speech"));
}

TEST(HostClaim, LastsBeyondItsProcessWhereTheJobHasAFolder) {
  const TemporaryFolder folder;
  const ScopedVariable variable("PMIX_SERVER_TMPDIR", folder.path().c_str());
  const std::string job = "job";
  EXPECT_FALSE(is_claimed_until_job_ends(job, "speech"));
  EXPECT_TRUE(another([&] { return claims_until_job_ends(job, "speech"); }));
  EXPECT_TRUE(is_claimed_until_job_ends(job, "speech"));
  EXPECT_FALSE(claims_until_job_ends(job, "speech"));
  EXPECT_FALSE(is_claimed_until_job_ends(job, "song"));
  EXPECT_TRUE(claims_until_job_ends("another", "speech"));
}

TEST(HostClaim, IsTheProcesssWhereTheJobHasNoFolder) {
  const std::string job = "alone-" + std::to_string(::getpid());
  for (const char* folder : {static_cast<const char*>(nullptr), "", "/nowhere"}) {
    const ScopedVariable variable("PMIX_SERVER_TMPDIR", folder);
    const std::string what = folder == nullptr ? "none" : "as " + std::string(folder);
    EXPECT_TRUE(another([&] { return claims_until_job_ends(job, what); }));
    EXPECT_TRUE(claims_until_job_ends(job, what));
    EXPECT_FALSE(another([&] { return claims_until_job_ends(job, what); }));
    EXPECT_FALSE(is_claimed_until_job_ends(job, what));
  }
}

TEST(HostClaim, IsOfTheJobThatPmixNames) {
  const ScopedVariable variable("PMIX_NAMESPACE", "4711");
  EXPECT_EQ(pmix_job(), "4711");
  const ScopedVariable none("PMIX_NAMESPACE", nullptr);
  EXPECT_EQ(pmix_job(), "");
}

}  // namespace
}  // namespace tandem
