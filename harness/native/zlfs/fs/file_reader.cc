#include "zlfs/fs/file_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace zlfs {
namespace {

// Threads of the pool. With the calling thread, a batch has one more read under way.
constexpr std::size_t kReadThreads = 15;

}  // namespace

FileReader::FileReader(VolumeState* state)
    : state_(state),
      pool_(kReadThreads),
      pins_(std::make_shared<ZonePins>(state->device->geometry().zone_count)) {}

std::uint64_t FileReader::Size(File* file) {
  const std::lock_guard tail(file->tail_mutex);
  const std::lock_guard lock(state_->mutex);
  return file->size + file->tail_size;
}

std::shared_ptr<const ExtentMap> FileReader::Map(File* file) {
  {
    const std::lock_guard lock(file->map_mutex);
    if (file->map != nullptr) return file->map;
  }
  const std::lock_guard lock(state_->mutex);
  const std::lock_guard map_lock(file->map_mutex);
  file->map = std::make_shared<const ExtentMap>(file->extents, pins_);
  return file->map;
}

IOStatus FileReader::Read(File* file, std::uint64_t offset, std::size_t size, Slice* read,
                          char* to) {
  *read = Slice();
  std::shared_ptr<const ExtentMap> map = Map(file);
  std::uint64_t end = offset + size;
  if (end > map->size) {
    // The end of the file may still be in the writer's buffer. Release the map before locking: the
    // writer may be waiting for readers to unpin a zone.
    map.reset();
    RETURN_IF_ERROR(ReadTail(file, offset, &end, to, &map));
  }
  if (offset >= end) return IOStatus::OK();
  // The map pins the zones, so no lock delays other readers during this read.
  const std::uint64_t stored = std::clamp(map->size, offset, end) - offset;
  RETURN_IF_ERROR(ReadExtents(*map, offset, stored, to));
  *read = Slice(to, end - offset);
  return IOStatus::OK();
}

IOStatus FileReader::ReadTail(File* file, std::uint64_t offset, std::uint64_t* end, char* to,
                              std::shared_ptr<const ExtentMap>* map) {
  const std::lock_guard tail(file->tail_mutex);
  *map = Map(file);
  const std::uint64_t stored = (*map)->size;
  if (file->lost_zone) {
    const std::lock_guard lock(state_->mutex);  // guards the name
    return IOStatus::IOError("lost-content", file->name + " from byte " + std::to_string(stored) +
                                                 " on: zone " + std::to_string(*file->lost_zone) +
                                                 " cannot be read");
  }
  *end = std::min(*end, stored + file->tail_size);
  const std::uint64_t from = std::max(offset, stored);
  if (from < *end) {
    const char* const buffered = file->tail.get() + file->tail_head() + (from - stored);
    std::memcpy(to + (from - offset), buffered, *end - from);
  }
  return IOStatus::OK();
}

IOStatus FileReader::ReadExtents(const ExtentMap& map, std::uint64_t offset, std::size_t size,
                                 char* to) {
  std::size_t index = static_cast<std::size_t>(
      std::upper_bound(map.starts.begin(), map.starts.end(), offset) - map.starts.begin() - 1);
  for (; size > 0; ++index) {
    const Extent& extent = map.extents[index];
    const std::uint64_t skip = offset - map.starts[index];
    const std::size_t n = std::min<std::uint64_t>(size, extent.length - skip);
    RETURN_IF_ERROR(state_->io.Read(extent.zone, extent.offset + skip, n, to));
    to += n;
    offset += n;
    size -= n;
  }
  return IOStatus::OK();
}

void FileReader::ReadMany(std::size_t count, const ReadPool::Work& work) {
  if (count > 1 && pool() != nullptr) return pool_.ForEach(count, work);
  for (std::size_t i = 0; i < count; ++i) work(i);
}

IOStatus FileReader::TracedRead(File* file, bool compaction, std::uint64_t offset, std::size_t size,
                                Slice* read, char* to) {
  AllocationTrace& trace = state_->trace;
  if (!trace.Takes(compaction)) return Read(file, offset, size, read, to);
  const std::uint64_t begin = AllocationTrace::Now();
  const IOStatus status = Read(file, offset, size, read, to);
  if (status.ok()) trace.AddRead(file->id, offset, read->size(), begin);
  return status;
}

}  // namespace zlfs
