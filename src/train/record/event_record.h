#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

/// TensorBoard's records, as bytes. An event file is a TFRecord file whose records are protocol
/// buffers of type tensorflow.Event.
///
/// Sources: the framing is tensorflow/core/lib/io/record_writer.cc (also "TFRecord and
/// tf.train.Example" of TensorFlow's guide); the masked checksum is
/// tensorflow/core/lib/hash/crc32c.h; the messages are tensorflow/core/util/event.proto and
/// tensorflow/core/framework/summary.proto; the encoding is
/// protobuf.dev/programming-guides/encoding. Of the messages these fields are used:
///
/// | message | fields |
/// | --- | --- |
/// | Event | 1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary (Summary),
///   7 session_log (SessionLog) |
/// | Summary | 1 value (repeated Value) |
/// | Summary.Value | 1 tag (string), 2 simple_value (float) |
/// | SessionLog | 1 status (enum; START is 1) |

/// CRC-32C (Castagnoli, RFC 3720 B.4) of `bytes`.
std::uint32_t crc32c(std::string_view bytes);

/// One record of a TFRecord file: length (u64), masked checksum of the length, `data`, masked
/// checksum of `data`; little-endian. Masked: rotated right by 15 bits, plus 0xa282ead8.
std::string tfrecord(std::string_view data);

/// A named number of a step.
struct EventScalar {
  std::string_view tag;
  double value = 0.0;  ///< written as a float; NaN and infinities are allowed
};

/// The first event of a file: says that it follows version 2 of the format, in which a session's
/// start supersedes later steps. `wall_time`: seconds since 1970, as in all of these.
std::string version_event(double wall_time);

/// A session begins whose first step is `step`: readers drop what they have of that step and later
/// ones.
std::string session_start_event(double wall_time, std::int64_t step);

/// Numbers of one step.
std::string scalars_event(double wall_time, std::int64_t step,
                          std::span<const EventScalar> scalars);

}  // namespace tandem
