# hearth: the only build file. `make help` lists the targets.
BUILD   ?= build
PREFIX  ?= /usr/local
ifeq ($(origin CC),default)
CC      := gcc
endif
PKG     ?= pkg-config
PYTHON  ?= python3
V       ?= 0
SAN     ?=
DEBUG   ?= 0
WERROR  ?= 0

Q := $(if $(filter 1,$(V)),,@)
VERSION := $(shell cat VERSION 2>/dev/null || echo 0.0.0)

MODULES := base model kern dev comm engine cmd
SRC := $(foreach m,$(MODULES),$(wildcard src/$(m)/*.c)) src/main.c
LIBSRC := $(filter-out src/main.c,$(SRC))
OBJ := $(SRC:%.c=$(BUILD)/%.o)
LIBOBJ := $(LIBSRC:%.c=$(BUILD)/%.o)

WARN := -Wall -Wextra -Wshadow -Wvla -Walloca -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wundef -Wpointer-arith \
  -Wwrite-strings -Wformat=2 -Wdouble-promotion -Wcast-qual -Wnull-dereference
ISGCC := $(shell $(CC) --version 2>/dev/null | grep -qi 'clang' || echo 1)
WARN += $(if $(ISGCC),-Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wimplicit-fallthrough=5,-Wimplicit-fallthrough)
CONV := -Wconversion -Wno-sign-conversion
OPTF := -O3 -fno-math-errno -fno-trapping-math
CFLAGS ?= $(OPTF) -g1
# FUZZ=1 (with clang): the library instrumented for libFuzzer; kernels are not (clang takes minutes for each, and no target computes)
override CFLAGS += -std=c11 -D_GNU_SOURCE -DHEARTH_VERSION='"$(VERSION)"' -Isrc -pthread $(WARN) \
  $(if $(filter 1,$(DEBUG)),-DDEBUG) $(if $(FUZZ),-fsanitize=fuzzer-no-link) \
  $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
LDFLAGS += -pthread $(if $(SAN),-fsanitize=$(SAN))
STRICT := $(if $(filter 1,$(WERROR)),-Werror)

# ---- libraries: a missing one is named with the package that brings it (Debian's and Ubuntu's names)
REQ_PKGS := jansson libpcre2-8 libutf8proc
APT_jansson := libjansson-dev
APT_libpcre2-8 := libpcre2-dev
APT_libutf8proc := libutf8proc-dev
NOBUILD := help clean distclean lint compdb tags deps
ifneq ($(filter-out $(NOBUILD),$(or $(MAKECMDGOALS),all)),)
ifeq ($(shell command -v $(firstword $(CC))),)
$(error $(firstword $(CC)) is missing: apt-get install gcc libc6-dev)
endif
ifeq ($(shell command -v $(PKG)),)
$(error $(PKG) is missing: apt-get install pkg-config)
endif
MISSING := $(strip $(foreach p,$(REQ_PKGS),$(if $(shell $(PKG) --exists $(p) && echo 1),,$(p))))
ifneq ($(MISSING),)
$(error $(MISSING) $(if $(word 2,$(MISSING)),are,is) missing: apt-get install $(foreach p,$(MISSING),$(APT_$(p))))
endif
ifneq ($(filter check test-bins,$(MAKECMDGOALS)),)
ifeq ($(shell $(PKG) --exists cmocka && echo 1),)
$(error cmocka is missing: apt-get install libcmocka-dev)
endif
endif
endif
PKG_CFLAGS := $(shell $(PKG) --cflags $(REQ_PKGS) 2>/dev/null)
LDLIBS += $(shell $(PKG) --libs $(REQ_PKGS) 2>/dev/null) -lm
HAVE_EDIT := $(shell $(PKG) --exists libedit 2>/dev/null && echo 1)
ifeq ($(HAVE_EDIT),1)
PKG_CFLAGS += -DHAVE_LIBEDIT $(shell $(PKG) --cflags libedit)
LDLIBS += $(shell $(PKG) --libs libedit)
OPTIONAL := libedit in
else
OPTIONAL := libedit left out, chat has no line editing (apt-get install libedit-dev)
endif
OPTIONAL := $(OPTIONAL); MPI, SQLite and CUDA left out, no part uses them yet
override CFLAGS += $(PKG_CFLAGS)

.PHONY: all clean distclean check test-bins fuzz fuzz-bins lint install uninstall docs compdb help FORCE
all: $(BUILD)/hearth
	@echo "  OPT   $(OPTIONAL)"

# everything is compiled anew when the flags change
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(CC) $(CFLAGS) $(LDFLAGS))' | cmp -s - $@ || echo '$(subst ','\'',$(CC) $(CFLAGS) $(LDFLAGS))' > $@

$(BUILD)/hearth: $(BUILD)/src/main.o $(BUILD)/libhearth.a
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(BUILD)/libhearth.a $(LDLIBS)

$(BUILD)/libhearth.a: $(LIBOBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar rcs $@ $^

# per-ISA flags: only these files may use intrinsics of their level
$(BUILD)/src/kern/%_avx2.o: ISA := -mavx2 -mfma -mf16c -mbmi2
$(BUILD)/src/kern/%_avx512.o: ISA := -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl
$(BUILD)/src/kern/%_avx512vnni.o: ISA := -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
$(BUILD)/src/kern/%_avx512bf16.o: ISA := -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16
$(BUILD)/src/kern/%_amx.o $(BUILD)/src/kern/%_amx_attn.o $(BUILD)/src/kern/%_amx_int8.o: ISA := -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8
$(BUILD)/src/base/%.o $(BUILD)/src/model/%.o $(BUILD)/src/comm/%.o $(BUILD)/src/cmd/%.o: ISA := $(CONV)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) $(STRICT) $(ISA) $(if $(FUZZ),$(if $(findstring src/kern/,$<),-fno-sanitize=all)) -MMD -MP -c -o $@ $<

# ---- tests: one cmocka program per tests/unit/test_*.c, one fuzzer per tests/fuzz/fuzz_*.c
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(wildcard tests/fuzz/fuzz_*.c))
TESTFLAGS = $(CFLAGS) $(STRICT) -Wno-missing-prototypes -Wno-double-promotion -Itests -MMD -MP -MF $@.d -MT $@
$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libhearth.a
	@mkdir -p $(@D)
	@echo "  TEST  $@"
	$(Q)$(CC) $(TESTFLAGS) -o $@ $< $(BUILD)/libhearth.a $(LDFLAGS) -lcmocka $(LDLIBS)
$(BUILD)/tests/fuzz_%: tests/fuzz/fuzz_%.c $(BUILD)/libhearth.a $(if $(FUZZ),,$(BUILD)/tests/fuzz/driver.o)
	@mkdir -p $(@D)
	@echo "  FUZZ  $@"
	$(Q)$(CC) $(TESTFLAGS) $(if $(FUZZ),-fsanitize=fuzzer) -o $@ $< $(filter %.o,$^) $(BUILD)/libhearth.a $(LDFLAGS) $(LDLIBS)
test-bins: $(UNIT) fuzz-bins
fuzz-bins: $(FUZZERS)

# TEST="test_buf test_cli" runs those only
check: all test-bins
	$(Q)$(PYTHON) -B tests/run.py --build $(BUILD) $(CHECKFLAGS) $(TEST)
lint:
	$(Q)$(PYTHON) -B tools/lint.py --build $(BUILD) $(LINTFLAGS)

# libFuzzer with clang where there is one, else the seeded driver: FUZZ_SECONDS for each target, under ASan and UBSan; FUZZ_TARGET=gguf for one
FUZZ_SECONDS ?= 60
FUZZ_TARGET ?= $(patsubst $(BUILD)/tests/fuzz_%,%,$(FUZZERS))
FUZZ_CLANG = $(firstword $(foreach c,clang clang-19 clang-18 clang-16 clang-15 clang-14,$(if $(shell echo 'int LLVMFuzzerTestOneInput(void){return 0;}' | \
  $(c) -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null && echo 1),$(c))))
fuzz:
	$(Q)$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) BUILD=$(BUILD)-fuzz SAN=address,undefined CFLAGS='-O1 -g1' $(if $(FUZZ_CLANG),CC=$(FUZZ_CLANG) FUZZ=1) fuzz-bins
	$(Q)for t in $(FUZZ_TARGET); do mkdir -p tests/fuzz/corpus/$$t $(BUILD)-fuzz/corpus/$$t; echo "== fuzz_$$t: $(FUZZ_SECONDS) s"; \
	  $(BUILD)-fuzz/tests/fuzz_$$t -max_total_time=$(FUZZ_SECONDS) -runs=1000000000 -timeout=10 -artifact_prefix=$(BUILD)-fuzz/ \
	  $(BUILD)-fuzz/corpus/$$t tests/fuzz/corpus/$$t || exit 1; done

# ---- install: program, man page, completions, docs
D := $(DESTDIR)$(PREFIX)
install: all
	install -d '$(D)/bin' '$(D)/share/man/man1' '$(D)/share/doc/hearth' '$(D)/share/bash-completion/completions' \
	  '$(D)/share/zsh/site-functions' '$(D)/share/fish/vendor_completions.d'
	install -m 755 $(BUILD)/hearth '$(D)/bin/hearth'
	$(BUILD)/hearth --generate man > '$(D)/share/man/man1/hearth.1'
	$(BUILD)/hearth --generate bash > '$(D)/share/bash-completion/completions/hearth'
	$(BUILD)/hearth --generate zsh > '$(D)/share/zsh/site-functions/_hearth'
	$(BUILD)/hearth --generate fish > '$(D)/share/fish/vendor_completions.d/hearth.fish'
	install -m 644 README.md CHANGELOG.md LICENSE docs/*.md '$(D)/share/doc/hearth'
uninstall:
	rm -f '$(D)/bin/hearth' '$(D)/share/man/man1/hearth.1' '$(D)/share/bash-completion/completions/hearth' \
	  '$(D)/share/zsh/site-functions/_hearth' '$(D)/share/fish/vendor_completions.d/hearth.fish'
	rm -rf '$(D)/share/doc/hearth'

docs: all
	$(BUILD)/hearth --generate options-md > docs/options.md
compdb:
	$(Q)$(MAKE) --no-print-directory -Bn V=1 all | $(PYTHON) -B tools/compdb.py > compile_commands.json
clean:
	rm -rf $(BUILD)
distclean:
	rm -rf build build-* compile_commands.json

help:
	@echo 'make            $(BUILD)/hearth and $(BUILD)/libhearth.a (V=1 shows commands, WERROR=1, DEBUG=1, SAN=address,undefined, CC=clang, BUILD=dir)'
	@echo 'make check      build and run all tests (TEST="test_buf test_cli" for some); ends with "N passed, N failed, N skipped"'
	@echo 'make lint       layers, headers, symbol names, allocation and output rules; cppcheck, shellcheck where present'
	@echo 'make fuzz       fuzz every target under sanitizers (FUZZ_SECONDS=60, FUZZ_TARGET=gguf)'
	@echo 'make install    program, man page, completions, docs (PREFIX=/usr/local, DESTDIR=); make uninstall'
	@echo 'make docs       docs/options.md from the option table'
	@echo 'make compdb     compile_commands.json for editors'
	@echo 'make clean      remove $(BUILD); make distclean removes every build folder'

-include $(OBJ:.o=.d) $(UNIT:%=%.d) $(FUZZERS:%=%.d) $(BUILD)/tests/fuzz/driver.d
