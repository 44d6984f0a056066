// What people read: tables line up, a preview states its figures, a state reads as in the glossary.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/render/migration_view.h"
#include "client/cli/render/preview.h"
#include "client/cli/render/table.h"

namespace warmring::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Test programs run in the "C" locale, as everything does that is started without one.
TEST(Table, MeasuresUtf8WhateverTheLocale) {
  Table table({{"TRANSFER"}, {"STATE"}, {"KEYS", true}});
  table.AddRow({"cache-01 → cache-02", "◌ warming", "12"});
  table.AddRow({"a → b", "✔ warm", "7"});
  EXPECT_EQ(table.ToString(),
            "TRANSFER             STATE      KEYS\n"
            "cache-01 → cache-02  ◌ warming    12\n"
            "a → b                ✔ warm        7\n");
}

TEST(Table, BytesThatAreNoTextDoNotStopIt) {
  Table table({{"A"}, {"B"}});
  table.AddRow({"\xff\xfe\xc3", "x"});
  table.AddRow({"\xe2\x86", "\x80"});
  table.AddRow({std::string(5000, '\xf0'), "\xed\xa0\x80"});
  EXPECT_THAT(table.ToString(), HasSubstr("x"));
}

TEST(Table, AlignsColumns) {
  Table table({{"NODE"}, {"SHARE", true}});
  table.AddRow({"cache-01", "5.00%"});
  table.AddRow({"c", "25.00%"});
  EXPECT_EQ(table.ToString(),
            "NODE       SHARE\n"
            "cache-01   5.00%\n"
            "c         25.00%\n");
}

TEST(Format, ScalesWithUnits) {
  EXPECT_EQ(FormatShare(0.118211), "11.82%");
  EXPECT_EQ(FormatBytes(0), "0.0 B");
  EXPECT_EQ(FormatBytes(4187593113), "3.9 GiB");
  EXPECT_EQ(FormatCount(9999), "9999");
  EXPECT_EQ(FormatCount(34'200'000), "34.2 M");
}

TEST(Preview, StatesWhatMovesAgainstTheIdeal) {
  v1::MigrationPlan plan;
  v1::Preview preview;
  preview.set_keyspace("sessions");
  preview.set_base_version(41);
  preview.set_waves(2);
  preview.set_moved_share(0.2);
  preview.set_ideal_share(0.2);
  preview.set_modulo_share(0.8);
  preview.set_plain_ring_share(0.21);
  preview.set_max_over_mean_before(1);
  preview.set_max_over_mean_after(1.001);
  auto* old = preview.add_shares();
  old->set_node("cache-01");
  old->set_before(0.25);
  old->set_after(0.2);
  auto* added = preview.add_shares();
  added->set_node("cache-05");
  added->set_after(0.2);
  preview.add_nodes_added()->set_id("cache-05");
  for (uint32_t wave = 0; wave < 2; ++wave) {
    auto* move = preview.add_moves();
    move->set_wave(wave);
    move->set_share(wave == 0 ? 0.05 : 0.15);
  }
  preview.add_warnings("cache-05 has no session yet");
  const std::string text = RenderPreview(plan, preview);
  EXPECT_THAT(text, HasSubstr("Moves     20.00% of hash space (ideal 20.00%; hash-mod-N would move "
                              "80.00%, a plain token ring 21.00%)"));
  EXPECT_THAT(text, HasSubstr("commit in 2 waves (25% → 100%, 30s apart), soak 15m"));
  EXPECT_THAT(text, HasSubstr("Warning   cache-05 has no session yet"));
  EXPECT_THAT(text, HasSubstr("Plan: 1 to add, 0 to remove, 1 shrink, 0 unchanged."));
}

TEST(Preview, ShowsWeightsPinsAndLoad) {
  v1::MigrationPlan plan;
  v1::Preview preview;
  preview.set_waves(1);
  preview.set_moved_share(0.01);
  preview.set_ideal_share(0.01);
  preview.add_moves()->set_share(0.01);
  auto* share = preview.add_shares();
  share->set_node("cache-01");
  share->set_load_before(0.6);
  share->set_load_after(0.4);
  EXPECT_THAT(RenderPreview(plan, preview), HasSubstr("hash space (ideal 1.00%), 0 ranges"));
  EXPECT_THAT(RenderPreview(plan, preview), Not(HasSubstr("LOAD NOW")));
  preview.mutable_load()->set_moved_share(0.2);
  preview.mutable_load()->set_ideal_share(0.19);
  preview.mutable_load()->set_max_over_mean_before(1.5);
  preview.mutable_load()->set_max_over_mean_after(1.01);
  auto* reweight = preview.add_reweights();
  reweight->set_node("cache-01");
  reweight->set_before(1);
  reweight->set_after(2.5);
  preview.add_pins_put()->set_bucket(7);
  const std::string text = RenderPreview(plan, preview);
  EXPECT_THAT(text, HasSubstr("LOAD NOW"));
  EXPECT_THAT(text, HasSubstr("60.00%"));
  EXPECT_THAT(text, HasSubstr("Weight    cache-01 1 → 2.5\n"));
  EXPECT_THAT(text, HasSubstr("Pins      1 put, 0 taken back"));
  EXPECT_THAT(text, HasSubstr("Load      20.00% of it moves (the least would be 19.00%), max/mean "
                              "1.500 → 1.010\n"));
}

TEST(Preview, SaysThatNothingMoves) {
  v1::Preview preview;
  preview.add_pins_removed(7);
  const std::string text = RenderPreview({}, preview);
  EXPECT_THAT(text,
              HasSubstr("Nothing moves: one version has all of it\n  Pins      0 put, 1 taken"));
  EXPECT_THAT(text, Not(HasSubstr("soak")));
}

TEST(MigrationView, AnUndoOffersNothingToStopIt) {
  v1::Migration m;
  m.set_id("mig-1");
  m.set_state(v1::MIGRATION_STATE_UNDO_FENCING);
  auto* transfer = m.mutable_transfer()->add_transfers();
  transfer->set_from("a");
  transfer->set_to("b");
  EXPECT_THAT(MigrationView(m), Not(HasSubstr("abort")));
  EXPECT_THAT(MigrationView(m), Not(HasSubstr("TRANSFER")));
  m.set_state(v1::MIGRATION_STATE_COMMITTED);
  EXPECT_THAT(MigrationView(m), HasSubstr("stop: warmring migration abort mig-1"));
  EXPECT_THAT(MigrationView(m), HasSubstr("a → b     ◌ warming"));
}

TEST(MigrationView, ReadsAsTheGlossary) {
  v1::Migration m;
  m.set_id("mig-7f3a");
  m.set_waves(3);
  m.set_state(v1::MIGRATION_STATE_COMMITTED);
  m.set_wave(1);
  EXPECT_EQ(MigrationStateText(m), "Committing 2/3");
  m.set_paused(true);
  EXPECT_EQ(MigrationStateText(m), "Committing 2/3 (paused)");
  EXPECT_THAT(MigrationView(m), HasSubstr("next: warmring migration resume mig-7f3a"));
  m.set_paused(false);
  m.set_held("waiting for a session of cache-05");
  EXPECT_THAT(MigrationLine(m), HasSubstr("held: waiting for a session of cache-05"));
  m.set_state(v1::MIGRATION_STATE_ROLLED_BACK);
  m.set_ended(true);
  m.set_failure("undone by oncall");
  EXPECT_THAT(MigrationView(m), HasSubstr("Because     undone by oncall"));
  EXPECT_THAT(MigrationView(m), Not(HasSubstr("stop:")));
}

TEST(MigrationView, SaysWhatIsUnusual) {
  v1::Migration m;
  m.set_id("mig-7f3a");
  m.set_waves(3);
  m.set_state(v1::MIGRATION_STATE_PLANNED);
  m.set_queued(true);
  EXPECT_EQ(MigrationStateText(m), "Planned (queued)");
  m.set_queued(false);
  m.set_state(v1::MIGRATION_STATE_WARMING);
  m.set_wave_attempt(1);
  m.set_preempted_by("mig-2");
  EXPECT_EQ(MigrationStateText(m), "Warming (attempt 2) (making way for mig-2)");
  v1::Migration::ForcedFence* forced = m.add_forced();
  forced->set_donor("cache-01");
  forced->set_author("alice");
  forced->set_reason("rack 7 burnt down");
  forced->mutable_time()->set_seconds(3661);
  EXPECT_THAT(MigrationView(m),
              HasSubstr("Forced      cache-01 by alice at 01:01:01: rack 7 burnt down"));
  forced->mutable_lease_left()->set_seconds(3);
  EXPECT_THAT(MigrationView(m), HasSubstr("at 01:01:01, 3s before its lease was over: rack 7"));
}

}  // namespace
}  // namespace warmring::cli
