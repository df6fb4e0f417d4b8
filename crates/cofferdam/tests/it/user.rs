//! The essential cases once more, as an ordinary user: where root runs the
//! tests, everything before this ran as root.

use crate::home::Home;
use crate::{
    bytes, doctor, environment, exec, interrupt, json, killed, limits, options, pty, stdin, trail,
    workspace, workspace_hostile,
};

#[test]
fn the_exit_code_is_the_commands_own() {
    exec::exit_codes(&Home::of_ordinary_user());
}

#[test]
fn a_caller_that_ignores_its_children_is_told_how_the_command_ended() {
    exec::ignored_children(&Home::of_ordinary_user());
}

#[test]
fn a_command_that_a_signal_ends_has_128_and_the_signals_number() {
    exec::signals(&Home::of_ordinary_user());
}

#[test]
fn a_time_out_ends_even_those_who_will_not_hear_of_it() {
    exec::time_out(&Home::of_ordinary_user());
}

#[test]
fn what_is_not_there_is_127_and_what_is_no_program_is_126() {
    exec::not_started(&Home::of_ordinary_user());
}

#[test]
fn a_process_in_the_background_does_not_hold_up_the_end() {
    exec::background(&Home::of_ordinary_user());
}

#[test]
fn a_sandbox_that_cannot_be_made_is_125_with_cause_and_help() {
    options::cannot_be_made(&Home::of_ordinary_user());
}

#[test]
fn what_we_are_given_the_command_gets() {
    stdin::passed(&Home::of_ordinary_user());
}

#[test]
fn stdout_and_stderr_are_kept_apart_and_exact() {
    bytes::apart(&Home::of_ordinary_user());
}

#[test]
fn streams_can_be_opened_by_name() {
    bytes::by_name(&Home::of_ordinary_user());
}

#[test]
fn a_flood_passes_through_little_memory() {
    bytes::flood(&Home::of_ordinary_user());
}

#[test]
fn when_the_reader_goes_everything_ends_with_141() {
    bytes::reader_goes(&Home::of_ordinary_user());
}

#[test]
fn nothing_of_the_callers_environment_is_inside() {
    environment::no_canaries(&Home::of_ordinary_user());
}

#[test]
fn variables_are_given_by_name_and_by_value() {
    environment::variables(&Home::of_ordinary_user());
}

#[test]
fn a_command_is_at_home_in_its_workspace() {
    environment::at_home(&Home::of_ordinary_user());
}

#[test]
fn success_opens_speaks_and_ends() {
    json::success(&Home::of_ordinary_user());
}

#[test]
fn files_made_changed_deleted_and_renamed_are_so_afterwards() {
    workspace::changes(Home::of_ordinary_user());
}

#[test]
fn one_command_sees_what_the_one_before_did() {
    workspace::one_after_another(Home::of_ordinary_user());
}

#[test]
fn modes_and_links_are_kept_and_set_id_bits_are_not() {
    workspace::modes(Home::of_ordinary_user());
}

#[test]
fn whatever_is_made_belongs_to_the_directorys_owner() {
    workspace::owner(Home::of_ordinary_user());
}

#[test]
fn links_never_lead_a_change_outside() {
    workspace_hostile::links(Home::of_ordinary_user());
}

#[test]
fn names_may_hold_anything() {
    workspace_hostile::names(Home::of_ordinary_user());
}

#[test]
fn what_is_no_file_passes_without_being_opened() {
    workspace_hostile::special_files(Home::of_ordinary_user());
}

#[test]
fn directories_that_nobody_may_enter_are_applied_and_can_be_removed() {
    workspace_hostile::locked(Home::of_ordinary_user());
}

#[test]
fn programs_files_and_connections_are_listed() {
    trail::listed(&Home::of_ordinary_user());
}

#[test]
fn a_memory_bomb_ends_for_lack_of_memory() {
    limits::memory(&Home::of_ordinary_user());
}

#[test]
fn processes_stop_at_their_number() {
    limits::processes(&Home::of_ordinary_user());
}

#[test]
fn a_fork_bomb_burns_out_and_is_gone() {
    limits::fork_bomb(&Home::of_ordinary_user());
}

#[test]
fn a_scratch_workspace_is_full_at_its_size() {
    limits::disk(&Home::of_ordinary_user());
}

#[test]
fn changes_in_memory_stop_at_their_size_and_are_applied() {
    limits::changes_in_memory(&Home::of_ordinary_user());
}

#[test]
fn one_cpu_is_one_however_many_want_it() {
    limits::cpus(&Home::of_ordinary_user());
}

#[test]
fn open_files_stop_at_their_number() {
    limits::open_files(&Home::of_ordinary_user());
}

#[test]
fn a_signal_is_passed_on_and_its_end_is_the_commands() {
    interrupt::passed_on(&Home::of_ordinary_user());
}

#[test]
fn when_we_are_killed_everything_goes() {
    killed::program_killed(&Home::of_ordinary_user());
}

#[test]
fn when_we_are_killed_the_changes_are_kept() {
    killed::program_killed_with_changes(&Home::of_ordinary_user());
}

#[test]
fn when_the_supervisor_is_killed_the_command_is_lost_and_the_next_start_cleans_up() {
    killed::supervisor_killed(&Home::of_ordinary_user());
}

#[test]
fn a_command_at_a_terminal_has_one_of_its_own() {
    pty::has_a_terminal(&Home::of_ordinary_user());
}

#[test]
fn jobs_can_be_stopped_and_continued() {
    pty::jobs(&Home::of_ordinary_user());
}

#[test]
fn keys_cannot_be_pressed_from_inside() {
    pty::no_injection(&Home::of_ordinary_user());
}

#[test]
fn the_last_line_says_what_will_be_used() {
    doctor::text(&Home::of_ordinary_user());
}

#[test]
fn as_json_it_is_one_object() {
    doctor::json(&Home::of_ordinary_user());
}

#[test]
fn the_host_goes_on_while_bombs_go_off() {
    limits::host_goes_on(&Home::of_ordinary_user());
}
