//! The cases, by theme. [`conformance!`](crate::conformance) makes a test of each of them for a fixture.

#![allow(missing_docs, reason = "the name of a case is a sentence about what it shows")]

pub mod batching;
pub mod brokering;
pub mod calling;
pub mod claiming;
pub mod committing;
pub mod completing;
pub mod crashing;
pub mod delaying;
pub mod doubting;
pub mod draining;
pub mod entering;
pub mod failing;
pub mod filing;
pub mod flagging;
pub mod grouping;
pub mod guarding;
pub mod handling;
pub mod holding;
pub mod locking;
pub mod looping;
pub mod measuring;
pub mod migrating;
mod mutexes;
pub mod obstructing;
pub mod parking;
pub mod prioritising;
pub mod publishing;
pub mod reading;
pub mod reconciling;
pub mod relaying;
pub mod rescuing;
pub mod retrying;
pub mod running;
pub mod sending;
pub mod stopping;
pub mod testing;
pub mod uniqueness;
pub mod waking;

/// Runs every case for a fixture: a backend's `tests/conformance.rs` is this and the fixture.
#[macro_export]
macro_rules! conformance {
    ($fixture:ty) => {
        $crate::conformance!(@ $fixture, claiming: [
            claims_come_in_order_and_no_more_than_asked_for, what_is_left_is_what_can_be_claimed, a_claimed_message_is_not_claimed_again,
            two_processes_share_a_queue_and_never_a_message, a_queue_has_its_own_order_and_its_own_part_of_a_table,
            a_released_message_is_claimable_and_nothing_is_counted, release_leaves_alone_what_is_not_ours,
            a_process_that_is_not_alive_claims_nothing, a_claim_whose_reply_was_lost_is_found,
            a_row_is_delivered_with_its_columns_and_its_owner, a_payload_over_the_limit_is_kept_from_the_action
        ]);
        $crate::conformance!(@ $fixture, completing: [
            effect_and_completion_are_committed_together, a_message_passes_the_door_only_once,
            a_claim_that_was_given_to_another_completes_nothing, a_row_that_was_changed_by_hand_completes_nothing,
            a_swallowed_error_breaks_the_transaction, a_rollback_by_the_action_breaks_the_transaction,
            a_commit_by_the_action_breaks_the_transaction, a_rolled_back_transaction_leaves_nothing,
            the_row_tells_whether_a_commit_arrived, a_dropped_transaction_leaves_nothing_and_harms_nobody
        ]);
        $crate::conformance!(@ $fixture, sending: [
            a_managed_message_arrives_as_it_was_sent, many_messages_keep_their_order,
            fields_of_a_message_for_a_table_are_columns, a_send_is_rolled_back_with_its_transaction,
            a_message_for_a_column_that_is_not_there_is_refused, a_message_over_the_limit_is_refused,
            an_unknown_queue_is_refused
        ]);
        $crate::conformance!(@ $fixture, delaying: [
            a_delayed_message_runs_when_it_is_due_as_attempt_one, a_message_for_a_given_time_runs_from_then_on,
            a_delay_does_not_keep_a_queue_from_being_drained, a_row_is_sent_with_a_delay_too
        ]);
        $crate::conformance!(@ $fixture, uniqueness: [
            a_second_message_with_the_same_key_is_the_first_one, a_key_is_free_when_its_message_is_done,
            a_failed_message_frees_its_key_and_takes_it_again_if_nobody_has_it, a_key_belongs_to_its_queue_and_is_compared_as_bytes,
            a_second_send_changes_nothing_about_the_first, of_many_at_once_one_is_sent, a_rolled_back_send_frees_its_key
        ]);
        $crate::conformance!(@ $fixture, waking: [
            a_send_in_the_same_process_wakes_an_idle_worker, what_an_action_sends_wakes_an_idle_worker,
            a_send_by_another_process_of_the_host_wakes_an_idle_worker, a_message_that_is_due_wakes_an_idle_worker
        ]);
        $crate::conformance!(@ $fixture, grouping: [
            only_the_first_of_a_group_can_be_claimed, the_next_of_a_group_follows_when_the_first_is_done,
            a_group_waits_for_the_retry_of_its_first_and_others_go_on,
            a_failed_message_holds_its_group_until_an_operator_has_decided,
            operators_see_how_long_the_oldest_waits_and_which_groups_are_held_up,
            a_failed_row_that_is_gone_or_set_to_new_by_hand_frees_its_group,
            what_a_dead_process_held_goes_on_with_its_first, what_is_released_or_left_behind_goes_on_with_its_first,
            a_dead_process_leaves_no_group_behind_whose_row_was_changed_by_hand,
            a_row_that_comes_late_waits_for_the_one_in_flight, messages_with_and_without_a_group_share_a_queue,
            every_one_of_many_groups_is_reached, an_empty_or_endless_group_is_refused_and_a_table_has_its_own,
            groups_keep_their_order_over_processes_and_retries
        ]);
        $crate::conformance!(@ $fixture, parking: [
            a_waiting_message_is_claimable_when_it_is_due_with_its_attempts, a_message_that_failed_for_good_has_its_status_and_its_reason,
            a_row_set_to_new_by_hand_runs_as_attempt_one, an_operator_retries_as_attempt_one, an_operator_discards_with_a_note,
            a_failure_of_a_lost_claim_is_not_written, completion_forgets_the_past, a_table_without_a_failed_value_keeps_its_dead_out_of_circulation,
            what_is_known_about_a_row_that_is_gone_is_forgotten, the_last_ten_failures_are_remembered, a_queue_is_drained_when_nothing_is_left_or_waits, a_wait_longer_than_a_database_can_count_is_cut
        ]);
        $crate::conformance!(@ $fixture, draining: [
            nothing_is_drained_while_a_message_moves_between_queues, what_one_reader_has_found_ends_the_drain_of_all
        ]);
        $crate::conformance!(@ $fixture, rescuing: [
            what_a_dead_process_had_becomes_suspect_without_an_attempt, a_death_under_the_mark_spends_an_attempt,
            a_message_that_kills_its_process_is_parked_in_the_end, a_live_process_keeps_its_messages,
            a_rescued_message_cannot_be_completed_by_its_old_owner, a_queue_that_the_rescuer_does_not_serve_is_left_alone,
            of_two_rescuers_each_message_is_freed_once, a_process_that_leaves_frees_what_it_has
        ]);
        $crate::conformance!(@ $fixture, batching: [
            messages_that_are_at_hand_share_a_transaction, one_that_fails_fails_alone_and_the_others_are_done,
            one_whose_claim_is_lost_in_the_middle_is_left_out, a_commit_that_did_not_arrive_is_run_again,
            a_commit_whose_reply_was_lost_is_told_by_every_row, a_commit_that_nobody_can_tell_about_is_found_later,
            one_that_breaks_the_transaction_is_parked_alone, one_that_cannot_be_read_is_parked_alone,
            a_batch_action_gets_them_together_and_a_bad_one_alone, suspects_have_no_company,
            two_of_a_group_never_share_a_transaction, a_pass_that_is_dropped_at_any_moment_leaves_each_effect_once_together,
            a_database_that_does_not_let_them_begin_spends_nothing, a_handler_after_each_sees_every_message,
            a_handler_that_fails_for_all_fails_for_each, an_abort_in_the_middle_releases_the_rest,
            a_pass_that_is_dropped_and_run_again_runs_all_of_them, done_rows_that_are_deleted_go_together
        ]);
        $crate::conformance!(@ $fixture, committing: [
            what_takes_too_long_is_rolled_back_and_runs_again, a_statement_that_takes_too_long_is_ended,
            what_a_parked_message_has_written_is_committed_with_its_failure, an_error_of_the_action_commits_and_one_of_the_database_does_not,
            a_failure_that_commits_needs_its_claim, a_committed_failure_whose_reply_was_lost_is_recorded_once,
            an_error_type_commits_and_others_do_not, a_failure_that_commits_does_so_alone_in_a_batch
        ]);
        $crate::conformance!(@ $fixture, calling: [
            each_callback_runs_in_the_transaction_that_is_its_own, a_failing_success_fails_its_message,
            a_failing_failure_does_not_hide_the_first_one, what_is_said_about_a_failure_that_commits_is_committed_with_it,
            a_failure_is_told_once_though_the_reply_to_its_commit_is_lost,
            nothing_is_said_about_a_message_that_is_not_ours_any_more,
            where_initialize_fails_no_worker_starts, a_failing_terminate_is_the_process_s_error,
            workers_that_end_with_an_error_say_so_and_their_error_stays,
            messages_that_share_a_transaction_are_told_one_by_one, several_actions_of_a_process_have_their_own
        ]);
        $crate::conformance!(@ $fixture, filing: [
            a_file_is_seen_when_its_message_is_done_and_not_before, a_file_of_a_failed_message_is_never_seen,
            a_path_from_a_message_does_not_lead_out_of_the_folder, files_of_messages_that_share_a_transaction_appear_together,
            a_file_appears_though_the_reply_to_its_commit_is_lost, a_file_whose_fate_nobody_could_tell_waits_for_the_next_start,
            what_is_decided_stays_decided,
            a_start_cleans_up_after_the_dead_and_spares_the_living, without_the_handler_there_are_no_files
        ]);
        $crate::conformance!(@ $fixture, obstructing: [
            a_file_that_cannot_be_put_in_its_place_waits, a_place_below_a_file_is_refused,
            files_with_something_in_their_way_hold_up_nobody, many_that_begin_and_end_at_once_do_not_disturb_each_other,
            a_folder_that_cannot_be_used_is_named_at_the_start, nothing_is_left_of_a_message_out_of_grace
        ]);
        $crate::conformance!(@ $fixture, guarding: [
            a_row_that_was_done_by_hand_is_neither_parked_nor_released, what_was_taken_or_done_by_hand_while_it_waited_is_not_returned,
            a_process_whose_row_is_gone_claims_nothing, a_death_does_not_bring_back_the_attempts_of_a_row_set_to_new_by_hand,
            a_key_that_can_be_null_is_refused, suspects_run_one_at_a_time,
            a_suspect_runs_under_a_mark_and_what_comes_after_it_does_not,
            what_a_dropped_pass_has_written_is_not_committed_by_the_next,
            a_pass_that_is_dropped_at_any_moment_leaves_each_effect_once
        ]);
        $crate::conformance!(@ $fixture, doubting: [
            the_first_rescue_waits_for_a_lease, after_signs_of_life_that_failed_the_wait_for_a_rescue_begins_anew,
            after_a_long_sleep_the_wait_for_a_rescue_begins_anew, nothing_is_claimed_while_the_sign_of_life_is_in_doubt,
            what_was_claimed_under_an_old_id_is_not_handed_out, after_a_sleep_in_the_middle_of_the_chores_nobody_is_rescued,
            after_a_look_around_that_failed_the_wait_for_a_rescue_begins_anew,
            after_a_sign_of_life_that_failed_without_a_gap_the_wait_begins_anew
        ]);
        $crate::conformance!(@ $fixture, failing: [
            a_database_that_does_not_let_us_begin_puts_no_message_aside,
            a_begin_comes_to_its_end_and_is_rolled_back_when_its_pass_is_dropped,
            a_commit_comes_to_its_end_when_its_pass_is_dropped, a_rollback_comes_to_its_end_when_its_pass_is_dropped,
            a_failure_is_recorded_when_its_pass_is_dropped, a_release_comes_to_its_end_when_its_pass_is_dropped,
            the_mark_of_a_suspect_comes_to_its_end_when_its_pass_is_dropped,
            an_id_that_never_came_to_life_is_forgotten,
            what_a_process_had_before_an_outage_is_free_after_it, what_no_handler_has_settled_is_released,
            what_could_not_be_released_is_found, a_claim_is_found_after_its_reply_was_lost,
            a_message_whose_commit_nobody_could_tell_about_is_found,
            a_claim_that_nobody_knows_of_is_found_once_per_lease, a_handler_sees_a_panic_further_in_as_an_error
        ]);
        $crate::conformance!(@ $fixture, flagging: [
            a_flag_stays_until_it_is_taken_away_and_is_seen_by_those_it_concerns,
            request_ids_are_compared_as_bytes_and_refused_if_nobody_could_type_them,
            who_serves_a_request_id_is_counted_while_it_lives,
            of_two_that_must_serve_alone_the_second_is_refused_until_the_first_is_gone,
            of_many_that_register_at_once_to_serve_alone_one_is_admitted
        ]);
        $crate::conformance!(@ $fixture, stopping: [
            a_stopped_request_id_ends_its_process_and_does_not_start,
            a_stop_by_flag_gives_running_messages_no_more_than_their_grace, a_paused_request_id_claims_nothing_until_it_is_resumed,
            a_pause_frees_also_a_claim_whose_reply_was_lost,
            of_several_pools_the_one_that_is_stopped_ends_and_the_others_go_on, a_worker_looks_before_every_so_many_messages,
            a_reader_of_the_users_own_is_not_asked_while_it_is_paused,
            a_second_process_is_refused_unless_it_is_exempt_and_the_dead_block_nobody,
            a_process_that_counted_as_dead_ends_if_another_has_taken_its_place
        ]);
        $crate::conformance!(@ $fixture, migrating: [
            many_processes_migrate_at_once, without_tables_everything_names_migrate, an_older_schema_is_refused_and_migrated_with_what_is_in_it, a_schema_one_version_newer_is_used,
            a_schema_two_versions_newer_is_refused,
            every_version_admits_the_one_before,
            a_newer_schema_that_does_not_admit_us_is_refused, what_is_not_there_is_named_with_its_nearest_match
        ]);
        $crate::conformance!(@ $fixture, running: [
            every_message_is_run_exactly_once_and_the_queue_is_empty, a_bad_message_never_stops_its_neighbours,
            an_action_that_breaks_its_transaction_is_parked_at_once, a_failing_message_runs_again_after_its_backoff,
            an_abort_ends_the_process_with_its_code, a_stop_releases_what_is_not_begun, a_message_out_of_grace_is_released,
            several_actions_run_side_by_side, an_unknown_action_is_exit_13, a_handler_of_the_users_own_sees_every_message,
            a_reader_of_the_users_own_takes_the_place_of_a_queue, a_message_sent_by_an_action_is_sent_only_if_it_is_done,
            an_action_that_opens_no_transaction_is_completed_too,
            a_handler_that_fails_for_a_message_parks_it, a_worker_that_panics_ends_the_process_and_nothing_is_lost,
            suspects_of_several_pools_are_all_run, a_drain_waits_for_what_one_action_sends_to_another,
            a_refusal_inside_an_action_is_the_messages_failure, two_actions_cannot_share_a_queue,
            a_failure_that_cannot_be_recorded_is_seen_and_does_not_spin,
            a_reader_of_the_users_own_is_not_told_done_after_a_broken_transaction
        ]);
        $crate::conformance!(@ $fixture, handling: [
            context_clear_removes_what_was_put_in_also_after_an_error, context_says_who_asked_for_what,
            global_error_turns_what_nobody_handled_into_a_status,
            connection_gives_a_right_to_the_pool_and_keeps_nothing,
            the_transaction_of_the_process_is_committed_before_the_workers_start, concurrency_starts_so_many_workers
        ]);
        $crate::conformance!(@ $fixture, looping: [
            after_done_comes_the_next, with_nothing_there_it_waits_for_a_signal_or_the_poll_interval,
            retry_park_error_and_panic_are_recorded_and_the_next_comes,
            an_abort_spends_an_attempt_and_the_others_finish_their_message,
            a_lost_claim_is_rolled_back_and_the_next_comes,
            after_a_short_fault_the_message_runs_again_without_an_attempt,
            after_a_lasting_fault_the_retry_handler_decides,
            with_its_last_allowed_message_a_process_ends_and_releases_the_rest
        ]);
        $crate::conformance!(@ $fixture, retrying: [
            a_limit_by_count_allows_so_many_retries,
            a_limit_by_time_allows_the_first_retry_and_those_within_the_time, after_the_window_the_count_starts_anew,
            it_gives_up_with_its_own_exit_code, whether_to_retry_is_asked_of_the_whole_chain_of_errors,
            a_stop_ends_the_pause, a_rule_that_would_never_give_up_is_refused
        ]);
        $crate::conformance!(@ $fixture, measuring: [
            what_two_processes_have_counted_is_what_was_done, waiting_and_running_times_are_within_the_stated_error,
            an_idle_process_writes_nothing,
            what_a_killed_process_has_stored_is_there_and_a_lost_reply_counts_nothing_twice,
            only_what_is_old_is_forgotten, rows_are_replaced_and_those_of_the_last_minutes_are_read,
            levels_are_counted_with_their_place_and_who_is_overtaken, what_waits_is_counted_with_what_was_sent_lately
        ]);
        $crate::conformance!(@ $fixture, prioritising: [
            a_strict_set_starts_all_of_the_higher_level_first, weights_are_exact_in_every_window_until_a_level_is_empty,
            a_reserved_slot_is_free_whatever_the_lower_level_runs,
            each_dedicated_level_has_its_own_slots_and_idle_ones_help_if_they_may,
            what_was_read_ahead_is_given_back_when_a_higher_one_shows_up,
            a_higher_message_that_nobody_told_of_starts_next_with_a_look_before_every_start,
            a_higher_message_starts_next_once_it_has_waited_for_longer_than_the_look,
            a_message_that_fails_at_the_head_of_a_higher_level_holds_up_nobody,
            suspects_of_a_higher_level_run_one_at_a_time_and_the_lower_level_goes_on,
            a_stop_and_a_pause_free_what_no_level_has_begun,
            a_process_with_an_allowance_ends_and_frees_the_rest_of_all_levels,
            two_levels_cost_hardly_more_claims_than_one_queue, an_old_message_takes_turns_with_the_level_above,
            a_delivery_tells_how_long_its_message_has_waited, an_action_and_a_client_send_to_levels
        ]);
        $crate::conformance!(@ $fixture, testing: [
            what_a_run_writes_and_sends_is_seen_inside_and_then_gone, a_run_notices_what_a_worker_would_notice,
            a_run_calls_the_action_back, what_a_run_writes_to_files_is_told_and_then_gone,
            a_drain_says_what_became_of_each_message
        ]);
        $crate::conformance!(@ $fixture, relaying: [
            what_is_rolled_back_is_never_there, what_is_committed_is_handed_to_the_relay_whole_and_in_order,
            many_messages_are_published_in_the_order_in_which_they_were_sent,
            what_cannot_be_published_or_has_no_place_there_is_refused, one_relay_at_a_time_has_the_turn,
            of_many_relays_that_want_the_turn_at_once_one_gets_it, what_has_arrived_is_not_published_again,
            a_late_confirm_does_not_swallow_a_retry, what_did_not_arrive_is_put_off_and_operators_see_it,
            a_delayed_message_is_published_when_it_is_due, who_looks_around_sees_what_is_to_be_published
        ]);
        $crate::conformance!(@ $fixture, reconciling: [
            of_several_relays_one_notices_what_the_broker_has_lost,
            dead_letters_of_what_has_failed_hide_nothing_that_is_lost
        ]);
        $crate::conformance!(@ $fixture, publishing: [
            a_client_publishes_through_the_only_broker_or_the_one_that_is_named,
            what_an_action_publishes_is_seen_by_its_test_and_goes_out_only_if_it_is_done,
            a_relay_wakes_up_when_something_is_published
        ]);
        $crate::conformance!(@ $fixture, holding: [
            what_is_done_has_no_row_any_more_and_is_never_done_again, several_messages_are_done_together_or_not_at_all,
            of_two_who_are_handed_the_same_message_one_gets_it, what_is_found_says_what_becomes_of_a_delivery,
            what_is_tried_again_is_published_again_with_its_attempts,
            what_has_failed_is_published_again_when_an_operator_wants_it, what_an_operator_discards_is_gone,
            what_a_dead_process_had_is_suspect_and_published_again_only_where_copies_are_dead_letters,
            a_process_that_nobody_knows_is_handed_nothing, a_queue_of_a_broker_is_drained_when_everything_is_done,
            whether_an_unknown_commit_arrived_the_row_tells,
            a_message_with_a_mutex_of_another_programs_making_is_kept_when_it_fails,
            an_action_that_ends_its_transaction_does_not_complete_its_message
        ]);
        $crate::conformance!(@ $fixture, entering: [
            an_id_enters_the_inbox_with_the_effect_of_its_message, of_two_who_enter_one_id_at_once_one_finds_it_busy,
            another_payload_under_the_same_id_is_another_message, what_is_marked_enters_when_it_is_done,
            of_a_marked_one_and_a_locked_one_only_one_is_done,
            an_action_that_ends_its_transaction_does_not_enter_its_message,
            what_fails_is_kept_and_published_again_to_its_own_queue, a_failure_that_is_committed_enters_nothing,
            old_ids_are_forgotten_some_at_a_time
        ]);
        $crate::reading!($fixture);
        mod over_lanes {
            use super::*;
            $crate::reading!($crate::cases::prioritising::Laned<$fixture>);
        }
    };
    (@ $fixture:ty, $theme:ident: [$($case:ident),* $(,)?]) => {
        mod $theme {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::cases::$theme::$case::<$fixture>().await;
                }
            )*
        }
    };
}

/// The cases for databases that have row locks.
#[macro_export]
macro_rules! locking {
    ($fixture:ty) => {
        $crate::conformance!(@ $fixture, locking: [
            a_locked_message_is_done_with_its_effect, who_is_handed_what_another_has_locked_finds_it_busy_at_once,
            a_lock_on_one_row_is_on_no_other, what_a_lock_finds_says_what_becomes_of_a_delivery,
            a_lock_does_not_complete_a_row_that_was_taken_away,
            an_action_that_ends_its_transaction_loses_its_lock_and_completes_nothing,
            a_failure_of_a_locked_message_is_recorded_unless_another_is_at_it,
            a_failure_of_a_locked_message_is_committed_with_its_transaction,
            the_row_tells_whether_the_lost_commit_of_a_locked_message_arrived,
            who_notes_what_has_arrived_does_not_wait_for_what_is_about_to_be_done,
            consumers_and_the_relay_are_never_in_each_others_way
        ]);
    };
}

/// Runs every case about brokers for a fixture.
#[macro_export]
macro_rules! brokering {
    ($fixture:ty) => {
        $crate::conformance!(@ $fixture, brokering: [
            what_is_sent_is_run_once_and_leaves_nothing, what_is_rolled_back_is_never_published,
            a_copy_of_what_is_done_is_acknowledged_and_counted, a_message_that_fails_runs_again_after_its_backoff,
            what_has_failed_for_good_is_a_dead_letter_and_an_operator_brings_it_back,
            what_was_not_sent_from_here_is_a_dead_letter, the_classic_story_ends_with_one_effect,
            a_message_that_is_sent_with_a_delay_is_published_when_it_is_due,
            a_broker_that_restarts_is_found_again, a_queue_that_was_deleted_is_declared_and_filled_again,
            while_the_broker_takes_nothing_consumers_go_on_and_sends_wait, what_cannot_be_routed_waits_and_says_why,
            what_the_queue_has_no_room_for_waits_and_says_why,
            cuts_at_every_step_between_us_and_the_broker_lose_and_double_nothing,
            sends_of_a_transaction_keep_their_order, two_services_with_two_databases_share_an_exchange,
            messages_that_share_a_transaction_are_acknowledged_together, a_drain_ends_when_every_mutex_is_gone,
            a_pause_gives_everything_back_and_a_resume_takes_it_again, a_stop_gives_back_what_is_not_begun,
            what_a_dead_process_had_leased_runs_again, an_action_that_ends_its_transaction_is_a_dead_letter,
            of_two_copies_in_one_process_one_is_busy, a_payload_over_the_limit_is_a_dead_letter,
            foreign_messages_run_once_by_their_id, ids_in_an_inbox_are_compared_as_bytes,
            a_foreign_message_without_an_id_is_a_dead_letter, two_foreign_messages_with_one_id_are_told_apart,
            another_message_with_the_same_id_is_told_apart_when_it_comes_again,
            each_of_three_queues_has_its_effect_once, a_foreign_message_that_fails_runs_again_from_its_own_queue,
            a_foreign_message_that_has_failed_is_a_dead_letter_and_comes_back,
            of_two_copies_of_a_foreign_message_one_is_busy,
            without_a_busy_queue_copies_are_settled_when_the_message_is_done, what_is_handed_out_again_is_marked_and_runs_once,
            levels_at_a_broker_are_strict_despite_the_prefetch, levels_at_a_broker_have_their_weights,
            a_level_in_the_database_and_one_at_a_broker_share_the_slots, a_higher_message_at_a_broker_starts_next,
            an_old_message_at_a_broker_takes_turns_with_the_level_above,
            foreign_messages_share_a_transaction, what_is_in_the_inbox_is_forgotten_after_a_while,
            what_a_lost_connection_had_brought_is_not_busy_when_it_comes_again,
            a_drain_of_foreign_messages_ends_when_the_broker_has_no_more,
            a_copy_of_a_foreign_message_that_was_discarded_is_a_duplicate,
            another_message_with_the_id_of_one_that_has_failed_stays_apart,
            a_drain_waits_for_what_goes_from_the_database_to_a_broker,
            what_nobody_has_kept_is_not_retried_before_it_comes_again
        ]);
    };
}
