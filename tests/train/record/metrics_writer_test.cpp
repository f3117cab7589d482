#include "train/record/metrics_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/message.h"
#include "train/scratch.h"

namespace tandem {
namespace {

class MetricsWriterTest : public ScratchTest {
 protected:
  static JsonLine at(std::int64_t step) {
    return JsonLine().text("kind", "train").integer("step", step);
  }
  static std::string line(std::int64_t step) {
    return "{\"kind\": \"train\", \"step\": " + std::to_string(step) + "}\n";
  }
};

TEST(JsonLine, KeepsOrderAndTypes) {
  EXPECT_EQ(JsonLine().str(), "{}");
  const std::string text = JsonLine()
                               .text("z", "quote\" back\\slash\nä")
                               .integer("a", std::numeric_limits<std::int64_t>::min())
                               .real("loss", 0.1)
                               .real("one", 1)
                               .boolean("best", true)
                               .str();
  EXPECT_EQ(text,
            "{\"z\": \"quote\\\" back\\\\slash\\nä\", \"a\": -9223372036854775808, "
            "\"loss\": 0.1, \"one\": 1.0, \"best\": true}");
}

TEST(JsonLine, RealsReadBackExactlyAndWhatJsonLacksIsNull) {
  for (const double value : {1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.123}) {
    const auto read = nlohmann::json::parse(JsonLine().real("x", value).str());
    EXPECT_EQ(read["x"].get<double>(), value);
  }
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_EQ(JsonLine().real("x", value).str(), "{\"x\": null}");
  }
  EXPECT_TRUE(nlohmann::json::accept(JsonLine().text("x", "\xff\xfe").str()));
}

TEST_F(MetricsWriterTest, EveryLineIsInTheFileAtOnceAndAppended) {
  {
    MetricsWriter writer(path("m"));
    EXPECT_EQ(get(path("m")), "");
    writer.write(at(1));
    EXPECT_EQ(get(path("m")), line(1));
    writer.write(at(2));
    EXPECT_EQ(get(path("m")), line(1) + line(2));
  }
  MetricsWriter again(path("m"));
  again.write(at(3));
  EXPECT_EQ(get(path("m")), line(1) + line(2) + line(3));
}

TEST_F(MetricsWriterTest, ATornLastLineIsDropped) {
  put(path("m"), line(1) + "{\"kind\": \"tr");
  MetricsWriter writer(path("m"));
  writer.write(at(2));
  EXPECT_EQ(get(path("m")), line(1) + line(2));
  put(path("n"), "{\"kind\"");
  MetricsWriter lone(path("n"));
  EXPECT_EQ(get(path("n")), "");
}

TEST_F(MetricsWriterTest, ResumeCutsLaterStepsAndWritesOn) {
  const std::string start = "{\"kind\": \"start\"}\n";
  put(path("m"), start + line(10) + line(20) + "{\"step\": 20, \"kind\": \"eval\"}\n" + line(30) +
                     "{\"step\": 20.5}\n" + line(40) + "{\"ki");
  MetricsWriter writer(path("m"));
  writer.resume_at(20);
  writer.write(at(30));
  EXPECT_EQ(get(path("m")),
            start + line(10) + line(20) + "{\"step\": 20, \"kind\": \"eval\"}\n" + line(30));
  writer.resume_at(0);
  EXPECT_EQ(get(path("m")), start);
}

TEST_F(MetricsWriterTest, ResumeBeforeAnEvaluationCutsItWithWhatCameBehindIt) {
  const auto record = [](const std::string& event, int step) {
    return R"({"event": ")" + event + R"(", "step": )" + std::to_string(step) + "}\n";
  };
  const std::string before = record("evaluation", 10) + record("train", 20) +
                             record("bad_samples", 20) +
                             R"({"event": 3, "step": 20})"
                             "\n";
  const std::string evaluation = record("evaluation", 20) + record("bad_samples", 20);
  const std::string again = record("start", 0) + "{\"event\": \"other\"}\n";
  put(path("m"), before + evaluation + again);
  MetricsWriter writer(path("m"));
  writer.resume_at(20);
  EXPECT_EQ(get(path("m")), before + evaluation + again);
  writer.resume_at(20, true);
  EXPECT_EQ(get(path("m")), before + again);
}

TEST_F(MetricsWriterTest, ResumeLeavesAWholeFileAlone) {
  put(path("m"), line(10));
  const auto before = std::filesystem::last_write_time(path("m"));
  MetricsWriter writer(path("m"));
  writer.resume_at(10);
  EXPECT_EQ(std::filesystem::last_write_time(path("m")), before);
  writer.write(at(11));
  EXPECT_EQ(get(path("m")), line(10) + line(11));
}

TEST_F(MetricsWriterTest, DamagedLinesAreDroppedWithTheirPlace) {
  put(path("m"), line(10) + "half a rec\n" + "\n" + "[1]\n" + line(20));
  MetricsWriter writer(path("m"));
  testing::internal::CaptureStderr();
  writer.resume_at(20);
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_EQ(get(path("m")), line(10) + line(20));
  for (const char* place : {"m:2:", "m:3:", "m:4:"}) {
    EXPECT_NE(warnings.find(place), std::string::npos) << warnings;
  }
}

TEST_F(MetricsWriterTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_NE(message_of<SystemError>([&] { MetricsWriter(path("no") / "m"); }).find("no/m'"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
