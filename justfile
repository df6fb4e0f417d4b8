# Lists the recipes.
default:
    @just --list

# Everything that has to pass, as CI runs it.
check:
    ./test

# The tests alone, all or those of a name: `just test lease`.
test *filter:
    cargo nextest run --workspace --locked {{ filter }}

# The house rules that no compiler checks.
tidy:
    cargo xtask tidy

# The measurements.
bench *arguments:
    cargo xtask bench {{ arguments }}

# The wire's decoder against arbitrary bytes; needs cargo-fuzz and nightly.
fuzz seconds="60":
    cd crates/guest-protocol && cargo +nightly fuzz run decoder -- -max_total_time={{ seconds }}
