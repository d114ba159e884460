# hearth: the only build file. `make help` lists the targets.
BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= gcc
PKG     ?= pkg-config
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
override CFLAGS += -std=c11 -D_GNU_SOURCE -DHEARTH_VERSION='"$(VERSION)"' -Isrc -I$(BUILD)/gen -pthread $(WARN) -MMD -MP \
  $(if $(filter 1,$(WERROR)),-Werror) $(if $(filter 1,$(DEBUG)),-DDEBUG) \
  $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
LDFLAGS += -pthread $(if $(SAN),-fsanitize=$(SAN))

REQ_PKGS := jansson libpcre2-8 libutf8proc hwloc
PKG_CFLAGS := $(shell $(PKG) --cflags $(REQ_PKGS) 2>/dev/null)
LDLIBS += $(shell $(PKG) --libs $(REQ_PKGS) 2>/dev/null) -lm
HAVE_EDIT := $(shell $(PKG) --exists libedit 2>/dev/null && echo 1)
ifeq ($(HAVE_EDIT),1)
PKG_CFLAGS += -DHAVE_LIBEDIT $(shell $(PKG) --cflags libedit)
LDLIBS += $(shell $(PKG) --libs libedit)
endif
override CFLAGS += $(PKG_CFLAGS)

.PHONY: all clean check test-bins
all: $(BUILD)/hearth

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
$(BUILD)/src/kern/%_amx.o $(BUILD)/src/kern/%_amx_attn.o: ISA := -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8
$(BUILD)/src/base/%.o $(BUILD)/src/model/%.o $(BUILD)/src/comm/%.o $(BUILD)/src/cmd/%.o: ISA := $(CONV)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) $(ISA) -c -o $@ $<

# ---- tests: one cmocka program per tests/unit/test_*.c
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libhearth.a
	@mkdir -p $(@D)
	@echo "  TEST  $@"
	$(Q)$(CC) $(CFLAGS) -Wno-missing-prototypes -Itests -o $@ $< $(BUILD)/libhearth.a $(LDFLAGS) -lcmocka $(LDLIBS)
test-bins: $(UNIT)

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d) $(UNIT:%=%.d)
