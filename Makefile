# Short names for what scripts/, test/run and bench/run do. Meson and ninja build the program.

DATA    ?= ./data
LISTEN  ?= 127.0.0.1:7070
DIR     ?=
MINUTES ?= 30
PREFIX  ?= /usr/local

all:
	@scripts/build release

deps:
	@scripts/deps install build

run:
	@exec scripts/run --data '$(DATA)' --listen '$(LISTEN)' $(if $(DIR),--dir '$(DIR)')

test:
	@scripts/deps install build test lint
	@exec test/run

soak:
	@scripts/deps install build test
	@exec test/run --soak '$(MINUTES)'

bench-deps:
	@scripts/deps install build test bench
	@scripts/deps nginx

bench: bench-deps
	@exec bench/run all

lint:
	@scripts/deps install lint
	@exec scripts/format --check

format:
	@scripts/deps install lint
	@exec scripts/format

install: all
	@meson configure build/release --prefix '$(PREFIX)'
	@scripts/build release >/dev/null # the prefix counts from the next build on
	@meson install -C build/release --no-rebuild

clean:
	rm -rf build

help:
	@sed -n '/^## Commands/,/^## Tests/p' doc/HACKING.md | grep '^make'

.PHONY: all deps run test soak bench-deps bench lint format install clean help
