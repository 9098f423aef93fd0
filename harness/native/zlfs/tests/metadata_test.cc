// The metadata log: its copies, roll-overs and marks, and failures of its zones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zlfs/meta/recover.h"
#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/faulty_device.h"
#include "zlfs/tests/volume_rig.h"

namespace zlfs {
namespace {

// The zones of the copies of the metadata log.
std::vector<std::uint32_t> CurrentMetadataZones(EmulatedDevice* device) {
  Recovered recovered;
  EXPECT_OK(Recover(device, &recovered));
  return recovered.metadata_zones;
}

std::uint32_t CurrentMetadataZone(EmulatedDevice* device) {
  return CurrentMetadataZones(device).front();
}

// The headers of a metadata zone's frames.
std::vector<SealedHeader> FramesIn(EmulatedDevice* device, std::uint32_t zone) {
  const std::size_t block = device->geometry().block_size;
  const std::string content = ReadZone(*device, zone, 0, InfoOf(*device, zone).write_pointer);
  std::vector<SealedHeader> frames;
  for (std::size_t at = block; at < content.size();) {
    SealedHeader header;
    if (!ReadHeader(std::string_view(content).substr(at), kFrameMagic, &header)) {
      ADD_FAILURE() << "no frame at " << at;
      break;
    }
    frames.push_back(header);
    at += SealedSize(header.size, block);
  }
  return frames;
}

TEST(Metadata, TheLogHasTwoEqualCopies) {
  Rig rig;
  const auto content = [&rig](std::uint32_t zone) {
    return ReadZone(*rig.device, zone, 0, InfoOf(*rig.device, zone).write_pointer);
  };
  for (int mount = 0; mount < 4; ++mount) {
    const auto volume = rig.Mount();
    for (const char* name : {"/a", "/b"}) {
      ASSERT_OK(Put(volume.get(), name + std::to_string(mount), Content(1, 0, 5000)));
      const auto copies = CurrentMetadataZones(rig.device.get());
      ASSERT_EQ(copies.size(), 2U);
      EXPECT_GT(content(copies[0]).size(), 0U);
      EXPECT_EQ(content(copies[0]), content(copies[1]));
      const std::uint32_t spare = 3 - copies[0] - copies[1];
      EXPECT_EQ(InfoOf(*rig.device, spare).condition, ZoneCondition::kEmpty);
    }
  }
}

TEST(Metadata, BothCopiesAreDurable) {
  const auto device = MakeDevice("zones=40&zone_size=128K&max_active=8&cache=volatile");
  ASSERT_OK(Mkfs(device.get(), {}, ""));
  EmulatedFaults::PowerLoss(*device, {});
  EXPECT_EQ(CurrentMetadataZones(device.get()).size(), 2U);
}

// A generation in zones that take no commands may have been replaced: nothing could mark it.
TEST(Metadata, AGenerationThatMayBeOldIsRefused) {
  Rig rig;
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  const auto copies = CurrentMetadataZones(rig.device.get());
  EmulatedFaults::BreakZone(*rig.device, copies[0], ZoneCondition::kReadOnly);
  EmulatedFaults::BreakZone(*rig.device, 3 - copies[0] - copies[1], ZoneCondition::kOffline);
  EXPECT_EQ(ReadWhole(rig.Mount({.read_only = true}).get(), "/a"), Content(1, 0, 5000));
  EmulatedFaults::BreakZone(*rig.device, copies[1], ZoneCondition::kReadOnly);
  std::unique_ptr<Volume> volume;
  EXPECT_ERROR(Volume::Mount(std::make_unique<HookedDevice>(rig.device, [] {}), {}, &volume),
               "lost-log");
  EXPECT_EQ(ReadWhole(rig.Mount({.salvage = true}).get(), "/a"), Content(1, 0, 5000));
}

TEST(Metadata, AForeignBlockBesideTheCopiesIsRefused) {
  Rig rig;
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  const auto copies = CurrentMetadataZones(rig.device.get());
  const Blocks blocks(1, 4096, 1);
  ASSERT_OK(rig.device->Write(3 - copies[0] - copies[1], 0, blocks.slice()));
  std::unique_ptr<Volume> volume;
  EXPECT_ERROR(Volume::Mount(std::make_unique<HookedDevice>(rig.device, [] {}), {}, &volume),
               "wrong-magic");
}

// As in a volume of format version 3.
TEST(Metadata, AVolumeWithOneCopyGetsAnother) {
  Rig rig;
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  ASSERT_OK(rig.device->ResetZone(CurrentMetadataZones(rig.device.get()).back()));
  EXPECT_EQ(CurrentMetadataZones(rig.device.get()).size(), 1U);
  const auto volume = rig.Mount();
  EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
  EXPECT_EQ(CurrentMetadataZones(rig.device.get()).size(), 2U);
}

// Both copies of a frame fail, and one of the zones is gone: the other zone stays.
TEST(Metadata, ALostCopyIsNotTheOneThatStays) {
  for (const std::size_t lost : {0U, 1U}) {
    Rig rig;
    auto volume = rig.MountFaulty();
    ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 5000)));
    const std::uint32_t zone = CurrentMetadataZones(rig.device.get())[lost];
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
    rig.faulty->Inject({.operation = Operation::kWrite, .after = 1, .times = Fault::kForever});
    EXPECT_FALSE(Put(volume.get(), "/b", Content(2, 0, 4000)).ok());
    volume.reset();
    EXPECT_EQ(ReadWhole(rig.Mount().get(), "/a"), Content(1, 0, 5000)) << lost;
  }
}

// One zone fails in the middle of a write, and is then gone: the copy in the other zone stays until
// the next generation is durable.
TEST(Metadata, AfterAFailedWriteTheOtherCopyStays) {
  constexpr std::uint64_t kCommands = 14;  // more than the sync of /b needs
  for (const std::size_t failing : {0U, 1U}) {
    for (std::uint64_t commands = 0; commands < kCommands; ++commands) {
      Rig rig;
      auto volume = rig.MountFaulty();
      ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 5000)));
      const std::uint32_t zone = CurrentMetadataZones(rig.device.get())[failing];
      rig.faulty->Inject({.operation = Operation::kWrite, .zone = zone});
      rig.faulty->DieAfter(commands);
      const bool synced = Put(volume.get(), "/b", Content(2, 0, 4000)).ok();
      volume.reset();
      EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
      volume = rig.Mount();
      ASSERT_NE(volume, nullptr) << failing << " after " << commands;
      EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
      if (synced) {
        EXPECT_EQ(ReadWhole(volume.get(), "/b"), Content(2, 0, 4000));
      }
      EXPECT_TRUE(commands + 1 < kCommands || synced);
    }
  }
}

TEST(Metadata, AZoneThatFailedIsTheLastChoice) {
  Rig rig;
  const auto volume = rig.MountFaulty();
  const auto fail = [&](std::size_t failing, const std::string& name) {
    const std::uint32_t zone = CurrentMetadataZones(rig.device.get())[failing];
    rig.faulty->Inject({.operation = Operation::kWrite, .zone = zone});
    EXPECT_OK(Put(volume.get(), name, "x"));
    const auto copies = CurrentMetadataZones(rig.device.get());
    EXPECT_EQ(copies.size(), 2U);
    return std::ranges::count(copies, zone);
  };
  for (int i = 0; i < 6; ++i) {
    for (const std::size_t failing : {0U, 1U}) {
      const std::string name = "/" + std::to_string(i) + "-" + std::to_string(failing);
      EXPECT_EQ(fail(failing, name), 0) << name;
    }
  }
  // Without a choice, it is taken again.
  const auto copies = CurrentMetadataZones(rig.device.get());
  EmulatedFaults::BreakZone(*rig.device, 3 - copies[0] - copies[1], ZoneCondition::kReadOnly);
  for (const std::size_t failing : {0U, 1U}) {
    EXPECT_EQ(fail(failing, "/again-" + std::to_string(failing)), 1);
  }
}

// A transient error costs no copy.
TEST(Metadata, AFailedCopyIsWrittenAgain) {
  for (std::uint64_t after = 0; after < 6; ++after) {
    Rig rig;
    ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
    auto device = std::make_unique<FaultyDevice>(rig.device.get());
    device->Inject({.operation = Operation::kWrite, .after = after});
    const auto volume = MountOk(std::move(device));
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(CurrentMetadataZones(rig.device.get()).size(), 2U) << after;
  }
}

// A crash in the middle of a roll-over leaves at least one whole generation.
TEST(Metadata, ARollOverCanEndAtEachCommand) {
  for (std::uint64_t commands = 0; commands < 12; ++commands) {
    Rig rig;
    ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
    {
      auto device = std::make_unique<FaultyDevice>(rig.device.get());
      device->DieAfter(commands);
      std::unique_ptr<Volume> volume;
      Volume::Mount(std::move(device), {}, &volume).PermitUncheckedError();
    }
    EXPECT_EQ(Violations(rig.device.get()), "") << commands;
    EXPECT_EQ(ReadWhole(rig.Mount().get(), "/a"), Content(1, 0, 5000)) << commands;
  }
}

// Two mounts in turn lose power after any command, and then one metadata zone fails.
TEST(Metadata, AnyOneZoneCanFailAtEachCommandOfAMount) {
  Rig rig("zones=40&zone_size=128K&max_active=8&cache=volatile");
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  constexpr std::uint64_t kCommands = 12;  // more than a mount needs
  const auto check = [&rig](std::uint64_t first, std::uint64_t second, std::uint32_t zone,
                            ZoneCondition condition) {
    std::unique_ptr<EmulatedDevice> clone;
    ASSERT_OK(EmulatedFaults::Clone(*rig.device, "failing-metadata-zone", &clone));
    const std::shared_ptr<EmulatedDevice> inner = std::move(clone);
    const auto open = [&] {
      return std::make_unique<HookedDevice>(inner, rig.device->geometry().identity, [] {});
    };
    for (const std::uint64_t commands : {first, second}) {
      const auto named = open();
      auto device = std::make_unique<FaultyDevice>(named.get());
      device->DieAfter(commands);
      std::unique_ptr<Volume> volume;
      Volume::Mount(std::move(device), {}, &volume).PermitUncheckedError();
      volume.reset();
      EmulatedFaults::PowerLoss(*inner, {});
    }
    EmulatedFaults::BreakZone(*inner, zone, condition);
    const auto volume = MountOk(open());
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
  };
  for (std::uint64_t commands = 0; commands < kCommands * kCommands; ++commands) {
    for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
      for (const auto condition : {ZoneCondition::kReadOnly, ZoneCondition::kOffline}) {
        SCOPED_TRACE(std::to_string(commands / kCommands) + " and " +
                     std::to_string(commands % kCommands) + " commands, zone " +
                     std::to_string(zone));
        check(commands / kCommands, commands % kCommands, zone, condition);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Metadata, AnyOneZoneCanBecomeReadOnlyOrOffline) {
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    for (const auto condition : {ZoneCondition::kReadOnly, ZoneCondition::kOffline}) {
      Rig rig;
      ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
      EmulatedFaults::BreakZone(*rig.device, zone, condition);
      for (std::uint64_t mount = 0; mount < 4; ++mount) {
        const std::string violations = Violations(rig.device.get());
        EXPECT_EQ(violations.find("10: metadata zone " + std::to_string(zone)), 0U) << violations;
        const auto volume = rig.Mount();
        ASSERT_NE(volume, nullptr) << zone;
        EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
        const std::string name = "/" + std::to_string(mount);
        ASSERT_OK(Put(volume.get(), name, Content(mount, 0, 5000)));
        if (mount > 0) {
          EXPECT_EQ(ReadWhole(volume.get(), "/" + std::to_string(mount - 1)),
                    Content(mount - 1, 0, 5000));
        }
      }
    }
  }
}

TEST(Metadata, AfterAWriteErrorTheLogGoesOnInAnotherZone) {
  for (const std::uint64_t landed : {0, 1}) {
    Rig rig;
    auto volume = rig.MountFaulty();
    for (std::uint64_t i = 0; i < 6; ++i) {
      // The file's own write, then the frame of its sync.
      rig.faulty->Inject({.operation = Operation::kWrite, .after = 1, .landed_blocks = landed});
      ASSERT_OK(Put(volume.get(), "/" + std::to_string(i), Content(i, 0, 4000)));
    }
    EXPECT_EQ(Violations(rig.device.get()), "");
    ASSERT_OK(volume->Close());
    volume = rig.Mount();
    for (std::uint64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(ReadWhole(volume.get(), "/" + std::to_string(i)), Content(i, 0, 4000));
    }
  }
}

TEST(Metadata, AFailedResetBehindARollOverDoesNoHarm) {
  Rig rig;
  for (std::uint64_t mount = 0; mount < 6; ++mount) {
    FaultyDevice* faulty = nullptr;
    auto device = std::make_unique<FaultyDevice>(rig.device.get());
    faulty = device.get();
    faulty->Inject({.operation = Operation::kReset, .times = 1 + mount % 3});
    const auto volume = MountOk(std::move(device));
    ASSERT_NE(volume, nullptr) << mount;
    for (std::uint64_t i = 0; i < mount; ++i) {
      EXPECT_EQ(ReadWhole(volume.get(), "/" + std::to_string(i)), "x");
    }
    ASSERT_OK(Put(volume.get(), "/" + std::to_string(mount), "x"));
    EXPECT_EQ(Violations(rig.device.get()), "");
  }
}

TEST(Metadata, WithoutAWritableZoneTheVolumeCanBeRead) {
  Rig rig;
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  ASSERT_OK(Put(rig.Mount().get(), "/d/a", "a"));
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kReadOnly);
  }
  for (int mount = 0; mount < 2; ++mount) {
    const auto volume = rig.Mount();
    ASSERT_NE(volume, nullptr);
    EXPECT_TRUE(volume->read_only());
    EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
    std::shared_ptr<File> file;
    const IOStatus status = volume->files().Create("/b", FileKind::kData, &file);
    EXPECT_TRUE(status.IsNotSupported());
    EXPECT_NE(status.ToString().find("no-metadata-zone"), std::string::npos) << status.ToString();
    EXPECT_TRUE(volume->files().Delete("/a").IsNotSupported());
    EXPECT_TRUE(volume->files().Rename("/a", "/b").IsNotSupported());
    EXPECT_TRUE(volume->files().RenameDirectory("/d", "/e").IsNotSupported());
    ASSERT_OK(volume->Close());
  }
}

// Leaves whole generations in all metadata zones: the resets of a roll-over fail. Returns a zone of
// the earlier one.
std::uint32_t MakeTwoGenerations(Rig* rig) {
  EXPECT_OK(Put(rig->Mount().get(), "/a", Content(1, 0, 5000)));
  auto volume = rig->MountFaulty();
  const auto copies = CurrentMetadataZones(rig->device.get());
  rig->faulty->Inject({.operation = Operation::kReset, .times = Fault::kForever});
  // One copy of the next frame fails, so the log rolls over.
  rig->faulty->Inject({.operation = Operation::kWrite, .after = 1});
  EXPECT_OK(Put(volume.get(), "/b", Content(2, 0, 4000)));
  EXPECT_EQ(Violations(rig->device.get()), "");
  EXPECT_EQ(CurrentMetadataZones(rig->device.get()),
            std::vector<std::uint32_t>{3 - copies[0] - copies[1]});
  EXPECT_OK(Put(volume.get(), "/d", Content(4, 0, 4000)));
  const auto written = [rig](std::uint32_t zone) {
    return InfoOf(*rig->device, zone).write_pointer;
  };
  return written(copies[0]) > written(copies[1]) ? copies[0] : copies[1];
}

TEST(Metadata, AReadErrorOfAnEarlierGenerationRefusesNoMount) {
  for (const std::uint64_t readable : {0U, 4096U}) {
    Rig rig;
    const std::uint32_t earlier = MakeTwoGenerations(&rig);
    auto device = std::make_unique<UnreadableDevice>(rig.device.get());
    device->Lose(earlier, readable);
    EXPECT_EQ(Violations(device.get()),
              "10: metadata zone " + std::to_string(earlier) + " cannot be read\n");
    const auto volume = MountOk(std::move(device));
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
    EXPECT_EQ(ReadWhole(volume.get(), "/b"), Content(2, 0, 4000));
    ASSERT_OK(volume->Close());
  }
}

// An earlier generation is whole, but it is never taken for the newest one.
TEST(Metadata, AMarkedGenerationIsNotTakenForTheNewest) {
  Rig rig;
  MakeTwoGenerations(&rig);
  const std::uint32_t newest = CurrentMetadataZone(rig.device.get());
  EmulatedFaults::BreakZone(*rig.device, newest, ZoneCondition::kOffline);
  std::unique_ptr<Volume> volume;
  EXPECT_ERROR(Volume::Mount(std::make_unique<HookedDevice>(rig.device, [] {}), {}, &volume),
               "lost-log");
  EXPECT_EQ(Violations(rig.device.get()).substr(0, 12), "9: lost-log:");

  // Salvage takes it, and names what is lost.
  MountOptions salvage{.read_only = true, .salvage = true};
  volume = rig.Mount(salvage);
  ASSERT_NE(volume, nullptr);
  ASSERT_EQ(volume->losses().size(), 1U);
  EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
  EXPECT_FALSE(volume->files().Exists("/d"));

  // A repair continues with it, also if the newest generation becomes readable again.
  volume = rig.Mount({.salvage = true});
  ASSERT_NE(volume, nullptr);
  ASSERT_OK(Put(volume.get(), "/c", Content(3, 0, 4000)));
  ASSERT_OK(volume->Close());
  EmulatedFaults::BreakZone(*rig.device, newest, ZoneCondition::kReadOnly);
  volume = rig.Mount();
  ASSERT_NE(volume, nullptr);
  EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
  EXPECT_EQ(ReadWhole(volume.get(), "/c"), Content(3, 0, 4000));
}

// Otherwise a loss of power brings the earlier generation back, when a mount has reset zones that
// this generation needs.
TEST(Metadata, AMarkIsDurableBeforeAMountEnds) {
  Rig rig(std::string(kSmall) + "&cache=volatile");
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  const auto earlier = CurrentMetadataZones(rig.device.get());
  {
    auto device = std::make_unique<FaultyDevice>(rig.device.get());
    FaultyDevice* const faulty = device.get();
    faulty->Inject({.operation = Operation::kReset, .times = Fault::kForever});
    const auto volume = MountOk(std::move(device));
    ASSERT_NE(volume, nullptr);
    faulty->DieAfter(0);
  }
  EmulatedFaults::PowerLoss(*rig.device, {});
  const auto newest = CurrentMetadataZones(rig.device.get());
  ASSERT_EQ(newest, std::vector<std::uint32_t>{3 - earlier[0] - earlier[1]});
  for (const std::uint32_t zone : earlier) {
    EXPECT_GT(InfoOf(*rig.device, zone).write_pointer, 0U) << "the reset failed";
  }
  EmulatedFaults::BreakZone(*rig.device, newest[0], ZoneCondition::kOffline);
  std::unique_ptr<Volume> volume;
  EXPECT_ERROR(Volume::Mount(std::make_unique<HookedDevice>(rig.device, [] {}), {}, &volume),
               "lost-log");
}

// The mark continues the chain of checksums, so that it counts as a part of its generation.
TEST(Metadata, AMarkContinuesItsGeneration) {
  Rig rig;
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  const std::uint32_t earlier = CurrentMetadataZone(rig.device.get());
  const std::vector<SealedHeader> before = FramesIn(rig.device.get(), earlier);
  auto device = std::make_unique<FaultyDevice>(rig.device.get());
  device->Inject({.operation = Operation::kReset, .times = Fault::kForever, .zone = earlier});
  ASSERT_NE(MountOk(std::move(device)), nullptr);
  const std::vector<SealedHeader> frames = FramesIn(rig.device.get(), earlier);
  ASSERT_EQ(frames.size(), before.size() + 1);
  const SealedHeader& mark = frames.back();
  EXPECT_EQ(mark.subject, static_cast<std::uint64_t>(FrameKind::kSuperseded));
  EXPECT_EQ(mark.previous, before.back().checksum);
  EXPECT_EQ(mark.generation, before.back().generation);
  EXPECT_GT(mark.number, before.back().number);
  EXPECT_EQ(Violations(rig.device.get()), "");
}

// A roll-over tries a marked zone again, and so does each later one. A second mark would not
// continue the chain of checksums.
TEST(Metadata, ACopyIsMarkedOnce) {
  Rig rig;
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  const auto earlier = CurrentMetadataZones(rig.device.get());
  for (int mount = 0; mount < 3; ++mount) {
    auto device = std::make_unique<FaultyDevice>(rig.device.get());
    device->Inject({.operation = Operation::kReset, .times = Fault::kForever});
    const auto volume = MountOk(std::move(device));
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
    for (const std::uint32_t zone : earlier) {
      const std::vector<SealedHeader> frames = FramesIn(rig.device.get(), zone);
      EXPECT_EQ(std::ranges::count(frames, static_cast<std::uint64_t>(FrameKind::kSuperseded),
                                   &SealedHeader::subject),
                1);
    }
  }
}

// The last write of a copy fails after all of it was written, and the zone cannot be reset. Such a
// copy is whole, but later frames are only in the other copies.
TEST(Metadata, AWholeCopyThatFailedIsMarked) {
  Rig rig;
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  const auto earlier = CurrentMetadataZones(rig.device.get());
  ASSERT_EQ(earlier.size(), 2U);
  const std::uint32_t failing = 3 - earlier[0] - earlier[1];
  auto device = std::make_unique<FaultyDevice>(rig.device.get());
  FaultyDevice* const faulty = device.get();
  faulty->Inject({.operation = Operation::kWrite,
                  .after = 1,  // the superblock
                  .landed_blocks = 100,
                  .zone = failing});
  faulty->Inject({.operation = Operation::kReset, .times = Fault::kForever, .zone = failing});
  auto volume = MountOk(std::move(device));
  ASSERT_NE(volume, nullptr);
  ASSERT_OK(Put(volume.get(), "/synced", "x"));
  faulty->DieAfter(0);
  volume.reset();
  EXPECT_EQ(Violations(rig.device.get()), "");
  for (const std::uint32_t zone : CurrentMetadataZones(rig.device.get())) {
    ASSERT_NE(zone, failing);
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
  }
  EXPECT_ERROR(Volume::Mount(std::make_unique<HookedDevice>(rig.device, [] {}), {}, &volume),
               "lost-log");
}

// Pieces show that a generation is not the newest one, if it comes back.
TEST(Metadata, APieceOfANewerGenerationRefusesAnEarlierOne) {
  Rig rig;
  const auto volume = rig.MountFaulty();
  const auto log = Create(volume.get(), "/x.log", FileKind::kLog, LogPlacement());
  const auto sync = [&] {
    ASSERT_OK(volume->writer().Append(log.get(), Content(1, 0, 5000)));
    ASSERT_OK(volume->writer().Sync(log.get()));
  };
  sync();
  const auto copies = CurrentMetadataZones(rig.device.get());
  const std::string earlier =
      ReadZone(*rig.device, copies[0], 0, InfoOf(*rig.device, copies[0]).write_pointer);
  std::string found;
  const auto bring_back = [&] {
    std::unique_ptr<EmulatedDevice> clone;
    ASSERT_OK(EmulatedFaults::Clone(*rig.device, "earlier-generation", &clone));
    for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) ASSERT_OK(clone->ResetZone(zone));
    for (const std::uint32_t zone : copies) Rewrite(clone.get(), zone, earlier);
    HookedDevice device(std::move(clone), rig.device->geometry().identity, [] {});
    found = Violations(&device);
  };
  sync();
  bring_back();
  EXPECT_EQ(found, "") << "it is the newest generation";
  rig.faulty->Inject({.operation = Operation::kWrite, .zone = copies[1]});
  ASSERT_OK(Put(volume.get(), "/a", Content(2, 0, 4000)));  // the log rolls over
  bring_back();
  EXPECT_EQ(found, "") << "no piece is newer";
  sync();
  bring_back();
  EXPECT_TRUE(found.starts_with("7: corrupt-piece")) << found;
}

// A roll-over because the zone is full leaves room for the mark.
TEST(Metadata, AFullGenerationIsMarked) {
  Rig rig;
  auto volume = rig.MountFaulty();
  const std::uint32_t earlier = CurrentMetadataZone(rig.device.get());
  rig.faulty->Inject({.operation = Operation::kReset, .times = Fault::kForever});
  std::uint32_t newest = earlier;
  for (std::uint64_t i = 0; newest == earlier; ++i) {
    ASSERT_OK(Put(volume.get(), "/" + std::to_string(i), "x"));
    newest = CurrentMetadataZone(rig.device.get());
  }
  ASSERT_OK(Put(volume.get(), "/synced", "x"));
  rig.faulty->DieAfter(0);  // a close would fail to write there, and roll over
  EmulatedFaults::BreakZone(*rig.device, newest, ZoneCondition::kOffline);
  volume.reset();
  EXPECT_ERROR(Volume::Mount(std::make_unique<HookedDevice>(rig.device, [] {}), {}, &volume),
               "lost-log");
  EXPECT_EQ(Violations(rig.device.get()).substr(0, 12), "9: lost-log:");
}

TEST(Metadata, ABrokenEndOfTheNewestGenerationIsSalvaged) {
  Rig rig;
  {
    const auto volume = rig.Mount();
    for (const char* name : {"/a", "/b", "/c"}) ASSERT_OK(Put(volume.get(), name, name));
  }
  const auto copies = CurrentMetadataZones(rig.device.get());
  const std::uint64_t end = InfoOf(*rig.device, copies[0]).write_pointer;
  const auto broken = [&] {
    auto device = std::make_unique<UnreadableDevice>(rig.device.get());
    // The frames of /b, /c and of the end.
    for (const std::uint32_t zone : copies) device->Lose(zone, end - 3 * 4096);
    return device;
  };
  std::unique_ptr<Volume> volume;
  EXPECT_ERROR(Volume::Mount(broken(), {}, &volume), "lost-log");
  ASSERT_OK(Volume::Mount(broken(), {.salvage = true}, &volume));
  EXPECT_EQ(volume->losses().size(), 1U);
  EXPECT_EQ(ReadWhole(volume.get(), "/a"), "/a");
  EXPECT_FALSE(volume->files().Exists("/c"));
  ASSERT_OK(volume->Close());
  EXPECT_EQ(Violations(rig.device.get()), "");
}

// The newest state that can be read has a WAL. The zone of this WAL was reset later.
TEST(Metadata, ASalvagedWalWithoutItsZoneIsALossAndNotTheEnd) {
  Rig rig;
  std::uint32_t log_zone = 0;
  std::uint64_t kept = 0;
  {
    const auto volume = rig.MountFaulty();
    const auto log = Create(volume.get(), "/w.log", FileKind::kLog, LogPlacement());
    ASSERT_OK(volume->writer().Append(log.get(), Content(1, 0, 5000)));
    ASSERT_OK(volume->writer().Sync(log.get()));
    log_zone = log->extents.back().zone;
    // The next frame fails, so the log rolls over, and the snapshot names the WAL.
    rig.faulty->Inject({.operation = Operation::kWrite, .after = 1});
    ASSERT_OK(Put(volume.get(), "/a", "/a"));
    ASSERT_OK(Put(volume.get(), "/c", "/c"));
    kept = InfoOf(*rig.device, CurrentMetadataZone(rig.device.get())).write_pointer;
    const auto other = Create(volume.get(), "/x.log", FileKind::kLog, LogPlacement());
    ASSERT_OK(volume->writer().Append(other.get(), Content(2, 0, 100000)));  // fills the zone
    ASSERT_OK(volume->writer().Sync(other.get()));
    ASSERT_OK(volume->writer().FinishWriting(log.get()));
    ASSERT_OK(volume->writer().FinishWriting(other.get()));
    for (const char* name : {"/w.log", "/x.log"}) ASSERT_OK(volume->files().Delete(name));
    ASSERT_OK(volume->files().SyncNames());
    ASSERT_OK(Put(volume.get(), "/b", "/b"));
  }
  ASSERT_EQ(InfoOf(*rig.device, log_zone).write_pointer, 0U);
  auto broken = std::make_unique<UnreadableDevice>(rig.device.get());
  for (const std::uint32_t zone : CurrentMetadataZones(rig.device.get())) broken->Lose(zone, kept);
  std::unique_ptr<Volume> volume;
  ASSERT_OK(Volume::Mount(std::move(broken), {.salvage = true}, &volume));
  EXPECT_EQ(ReadWhole(volume.get(), "/a"), "/a");
  ASSERT_EQ(volume->losses().size(), 2U);  // the newest state, and the WAL
  EXPECT_NE(volume->losses()[1].find("/w.log"), std::string::npos) << volume->losses()[1];
  std::shared_ptr<File> file;
  ASSERT_OK(volume->files().Open("/w.log", &file));
  std::string part(5000, '\0');
  Slice read;
  EXPECT_ERROR(volume->reader().Read(file.get(), 0, part.size(), &read, part.data()),
               "lost-content");
  file.reset();
  ASSERT_OK(volume->Close());
  EXPECT_EQ(Violations(rig.device.get()), "");
}

// Returns the superblock of a new volume with another format version.
std::string OfVersion(EmulatedDevice* device, std::uint32_t version) {
  Superblock superblock;
  EXPECT_OK(DecodeSuperblock(ReadZone(*device, 0, 0, 4096), &superblock));
  superblock.version = version;
  return EncodeSuperblock(superblock);
}

TEST(Metadata, AnOlderFormatIsRefusedByName) {
  Rig rig;
  Superblock superblock;
  const std::string block = OfVersion(rig.device.get(), kOldestVersion - 1);
  EXPECT_ERROR(DecodeSuperblock(block, &superblock), "older-version");
}

// Gives a new volume another format version, and its frames the checksums that this requires.
void SetVersion(EmulatedDevice* device, std::uint32_t version) {
  const std::size_t block = device->geometry().block_size;
  std::string content = ReadZone(*device, 0, 0, InfoOf(*device, 0).write_pointer);
  content.replace(0, block, OfVersion(device, version));
  std::uint64_t previous;
  std::memcpy(&previous, content.data() + kSuperblockChecksumOffset, sizeof(previous));
  SealedHeader header;
  for (std::size_t at = block, size; at < content.size(); at += size) {
    ASSERT_TRUE(ReadHeader(std::string_view(content).substr(at), kFrameMagic, &header));
    size = SealedSize(header.size, block);
    header.previous = previous;
    previous = Seal(header, content.data() + at, size);
  }
  Rewrite(device, 0, content);
}

TEST(Metadata, AMountMakesTheNewestFormatOfTheOneBefore) {
  Rig rig;
  SetVersion(rig.device.get(), kOldestVersion);
  Recovered recovered;
  ASSERT_OK(Recover(rig.device.get(), &recovered));
  EXPECT_EQ(recovered.superblock.version, kOldestVersion);
  ASSERT_OK(Put(rig.Mount().get(), "/a", "content"));
  ASSERT_OK(Recover(rig.device.get(), &recovered));
  EXPECT_EQ(recovered.superblock.version, kFormatVersion);
}

}  // namespace
}  // namespace zlfs
