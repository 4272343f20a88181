# Short names for the scripts of this repository; `just --list` prints them.

# Everything that a change must pass
check *arguments:
    .ci/run {{arguments}}

# What needs no server: unit tests and SQLite's suite
quick *arguments:
    ./test --quick {{arguments}}

# All tests
test *arguments:
    ./test {{arguments}}

# All tests, with the load and fault tests in full size
full *arguments:
    ./test --full {{arguments}}

# What the program is made of, as CycloneDX JSON, to stdout
sbom *arguments:
    .ci/sbom {{arguments}}

# Format the code
fmt:
    cargo fmt --all

# Lint as the check does
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Build the API documentation as the check does
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Send 2,000 orders, kill a process, count
demo *arguments:
    cargo run --release -- demo {{arguments}}
