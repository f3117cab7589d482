#include "train/record/event_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "support/message.h"
#include "train/scratch.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// What the test reads back of an event file; checksums are event_record_test's business.
struct ReadEvent {
  double wall_time = 0.0;
  std::string rest;  // the encoded fields after the time
};

class EventWriterTest : public ScratchTest {
 protected:
  /// The whole records of a file: length, four bytes, data, four bytes.
  static std::vector<ReadEvent> read(const fs::path& file) {
    const std::string bytes = get(file);
    std::vector<ReadEvent> events;
    for (std::size_t at = 0; at + 16 <= bytes.size();) {
      std::uint64_t length = 0;
      std::memcpy(&length, bytes.data() + at, sizeof length);
      if (at + 16 + length > bytes.size() || length < 9) break;
      ReadEvent event;
      EXPECT_EQ(bytes[at + 12], '\x09');  // field 1, eight bytes
      std::memcpy(&event.wall_time, bytes.data() + at + 13, sizeof event.wall_time);
      event.rest = bytes.substr(at + 21, length - 9);
      events.push_back(event);
      at += 16 + length;
    }
    return events;
  }

  /// "SessionLog START" of a step below 128.
  static std::string start_at(char step) { return std::string("\x10") + step + "\x3a\x02\x08\x01"; }

  /// The event files of the folder, by name.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& each : fs::directory_iterator(folder_)) {
      found.push_back(each.path().filename().string());
    }
    std::ranges::sort(found);
    return found;
  }
};

TEST_F(EventWriterTest, EveryEventIsInTheFileAtOnceWithItsTime) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const double before = now();
  EventWriter writer(folder_, 0);
  EXPECT_TRUE(writer.path().filename().string().starts_with("events.out.tfevents."));
  std::vector<ReadEvent> events = read(writer.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].rest,
            "\x1a\x0d"
            "brain.Event:2");
  EXPECT_EQ(events[1].rest, start_at(1));

  writer.write(5, std::vector<EventScalar>{{"a", 0.5}});
  events = read(writer.path());
  ASSERT_EQ(events.size(), 3U);
  // step 5; summary { value { tag "a", 0.5F } }
  EXPECT_EQ(events[2].rest, std::string("\x10\x05\x2a\x0a\x0a\x08\x0a\x01"
                                        "a\x15\0\0\0\x3f",
                                        14));
  for (const ReadEvent& event : events) {
    EXPECT_GE(event.wall_time, before);
    EXPECT_LE(event.wall_time, now());
  }
}

TEST_F(EventWriterTest, ALaterSessionHasAFileOfItsOwnThatSortsAfter) {
  std::vector<std::string> in_order;
  for (const int step : {0, 20, 20, 10}) {
    const EventWriter writer(folder_, step);
    in_order.push_back(writer.path().filename().string());
    EXPECT_EQ(read(writer.path()).at(1).rest, start_at(static_cast<char>(step + 1)));
  }
  EXPECT_EQ(names(), in_order);
}

TEST_F(EventWriterTest, SortsAfterAFileOfAClockThatWasAheadAndLeavesItAlone) {
  put(path("events.out.tfevents.4102444800.other.7"), "theirs");  // of the year 2100
  put(path("events.out.tfevents.x"), "");
  put(path("events.out.tfevents.99999999999999999999.y"), "");
  const EventWriter writer(folder_, 0);
  EXPECT_TRUE(writer.path().filename().string().starts_with("events.out.tfevents.4102444801."));
  EXPECT_EQ(get(path("events.out.tfevents.4102444800.other.7")), "theirs");
}

TEST_F(EventWriterTest, AFolderThatIsMissingIsNamed) {
  EXPECT_NE(message_of<SystemError>([&] { EventWriter(path("no"), 0); }).find("/no"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
