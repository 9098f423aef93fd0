// One client of a job. It chooses commands and their addresses; the simulation decides when they
// are sent.

#pragma once

#include <cstdint>
#include <vector>

#include "kvmix/source/random.h"
#include "model/drive.h"
#include "model/load/job.h"

namespace zonemodel {

class Client {
 public:
  Client(const ClientJob& job, const Parameters& parameters, Drive* drive);

  // Sets the next command of a slot. Returns false when the client has no more commands.
  bool Next(std::uint32_t slot, Command* command);

  // One of the zones that are written at the same time. Writes that wait in the host count as
  // queued.
  struct Lane {
    std::uint32_t zone;  // index in the client's zones
    Bytes queued = 0;
  };
  Lane& LaneOf(std::uint32_t slot) { return lanes_[slot % lanes_.size()]; }

  // Returns when the n-th command is due, for a client with a rate.
  [[nodiscard]] Time Due(std::uint64_t number) const;
  [[nodiscard]] const ClientJob& job() const { return job_; }

 private:
  Operation Choose();
  bool NextOfSequence(Command* command);
  bool NextWrite(std::uint32_t slot, Command* command);
  void NextAddress(Command* command);
  std::uint64_t NextIndex();
  std::uint64_t RandomIndex();
  void Refill(std::uint32_t zone);
  [[nodiscard]] std::uint32_t zone_count() const { return job_.zones.end - job_.zones.first; }

  const ClientJob job_;
  const Bytes zone_capacity_;
  const Bytes block_;
  Drive* drive_;
  kvmix::Random random_;
  std::vector<std::pair<std::uint64_t, Operation>> choice_;  // cumulative weights
  std::vector<Lane> lanes_;
  std::uint64_t addresses_ = 0;  // commands that fit into the client's range
  std::uint64_t hot_ = 0;        // of those, the hot ones
  Bytes per_zone_ = 0;           // addresses in a zone
  std::uint64_t address_ = 0;    // next one of a sequential run
  std::uint64_t run_left_ = 0;
  std::uint32_t cursor_ = 0;      // zone of the next zone command, or of the sequence
  std::size_t step_ = 0;          // index in the sequence
  std::uint32_t times_ = 0;       // how often the step was played
  Bytes step_written_ = 0;        // bytes in the zone before the step's last command
  std::uint64_t pass_begin_ = 0;  // commands sent before this pass of the sequence
  std::uint64_t sent_ = 0;
  Bytes sent_bytes_ = 0;
};

}  // namespace zonemodel
