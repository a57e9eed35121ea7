# Builds the control plane that tests and benchmarks run against, once per change of its sources,
# into a cache folder outside git that is named after their hash. Needs Go; about 5–12 minutes cold.
CONTROLPLANE_DIR := tests/controlplane
CONTROLPLANE_SOURCES := $(CONTROLPLANE_DIR)/go.mod $(CONTROLPLANE_DIR)/go.sum \
	$(wildcard $(CONTROLPLANE_DIR)/cmd/controlplane/*.go)
ARRANGER_CACHE ?= $(HOME)/.cache/arranger
CONTROLPLANE_HASH := $(shell cat $(CONTROLPLANE_SOURCES) | sha256sum | cut -c1-16)
CONTROLPLANE_BIN := $(ARRANGER_CACHE)/controlplane-$(CONTROLPLANE_HASH)/arranger-controlplane
# Empty where the binary neither exists nor can be built: `make test` then leaves this tier out and
# says so. (make's own exit status is 2 whatever went wrong.)
CONTROLPLANE_POSSIBLE := $(or $(wildcard $(CONTROLPLANE_BIN)),$(shell command -v go))

.PHONY: controlplane
controlplane: $(CONTROLPLANE_BIN) ## Build the real control plane for tests (needs Go)

$(CONTROLPLANE_BIN): | $(CONTROLPLANE_SOURCES)
	@command -v go >/dev/null || { echo "make controlplane: needs Go, which is not installed"; exit 2; }
	@echo "building the control plane (some minutes the first time)"
	@mkdir -p $(@D)
	cd $(CONTROLPLANE_DIR) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" \
		-o $@.part ./cmd/controlplane
	@mv $@.part $@

# The oracle: kube-scheduler's own plugins over snapshots, for comparison with ours.
ORACLE_SOURCES := $(CONTROLPLANE_DIR)/go.mod $(CONTROLPLANE_DIR)/go.sum \
	$(sort $(wildcard $(CONTROLPLANE_DIR)/cmd/oracle/*.go))
ORACLE_HASH := $(shell cat $(ORACLE_SOURCES) | sha256sum | cut -c1-16)
ORACLE_BIN := $(ARRANGER_CACHE)/oracle-$(ORACLE_HASH)/arranger-oracle

.PHONY: oracle
oracle: $(ORACLE_BIN) ## Build the oracle that judges snapshots for tests (needs Go)

$(ORACLE_BIN): | $(ORACLE_SOURCES)
	@command -v go >/dev/null || { echo "make oracle: needs Go, which is not installed"; exit 2; }
	@echo "building the oracle (some minutes the first time)"
	@mkdir -p $(@D)
	cd $(CONTROLPLANE_DIR) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" \
		-o $@.part ./cmd/oracle
	@mv $@.part $@

# The judge of selectors of devices: kube-scheduler's own evaluation, and what it costs.
CELJUDGE_SOURCES := $(CONTROLPLANE_DIR)/go.mod $(CONTROLPLANE_DIR)/go.sum \
	$(sort $(wildcard $(CONTROLPLANE_DIR)/cmd/celjudge/*.go))
CELJUDGE_HASH := $(shell cat $(CELJUDGE_SOURCES) | sha256sum | cut -c1-16)
CELJUDGE_BIN := $(ARRANGER_CACHE)/celjudge-$(CELJUDGE_HASH)/arranger-celjudge

.PHONY: celjudge
celjudge: $(CELJUDGE_BIN) ## Build the judge of selectors of devices for tests (needs Go)

$(CELJUDGE_BIN): | $(CELJUDGE_SOURCES)
	@command -v go >/dev/null || { echo "make celjudge: needs Go, which is not installed"; exit 2; }
	@echo "building the judge of selectors (a minute the first time)"
	@mkdir -p $(@D)
	cd $(CONTROLPLANE_DIR) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" \
		-o $@.part ./cmd/celjudge
	@mv $@.part $@

# The judge of quantities: Kubernetes' own reader.
QUANTITYJUDGE_SOURCES := $(CONTROLPLANE_DIR)/go.mod $(CONTROLPLANE_DIR)/go.sum \
	$(sort $(wildcard $(CONTROLPLANE_DIR)/cmd/quantityjudge/*.go))
QUANTITYJUDGE_HASH := $(shell cat $(QUANTITYJUDGE_SOURCES) | sha256sum | cut -c1-16)
QUANTITYJUDGE_BIN := $(ARRANGER_CACHE)/quantityjudge-$(QUANTITYJUDGE_HASH)/arranger-quantityjudge

.PHONY: quantityjudge
quantityjudge: $(QUANTITYJUDGE_BIN) ## Build the judge of quantities for tests (needs Go)

$(QUANTITYJUDGE_BIN): | $(QUANTITYJUDGE_SOURCES)
	@command -v go >/dev/null || { echo "make quantityjudge: needs Go, which is not installed"; exit 2; }
	@echo "building the judge of quantities"
	@mkdir -p $(@D)
	cd $(CONTROLPLANE_DIR) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" \
		-o $@.part ./cmd/quantityjudge
	@mv $@.part $@

# An API server that stores and checks nothing, for `bench_one_leader`.
STUBSERVER_SOURCES := $(CONTROLPLANE_DIR)/go.mod $(CONTROLPLANE_DIR)/go.sum \
	$(sort $(wildcard $(CONTROLPLANE_DIR)/cmd/stubserver/*.go))
STUBSERVER_HASH := $(shell cat $(STUBSERVER_SOURCES) | sha256sum | cut -c1-16)
STUBSERVER_BIN := $(ARRANGER_CACHE)/stubserver-$(STUBSERVER_HASH)/arranger-stubserver

.PHONY: stubserver
stubserver: $(STUBSERVER_BIN) ## Build the API server that costs nearly nothing, for benchmarks (needs Go)

$(STUBSERVER_BIN): | $(STUBSERVER_SOURCES)
	@command -v go >/dev/null || { echo "make stubserver: needs Go, which is not installed"; exit 2; }
	@echo "building the server for benchmarks"
	@mkdir -p $(@D)
	cd $(CONTROLPLANE_DIR) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" \
		-o $@.part ./cmd/stubserver
	@mv $@.part $@

# Programs of others, as they are published, that tests run beside ours. Each is a module of its own,
# so that its dependencies touch no other's. $(1): its folder in programs; $(2): what go builds there;
# $(3) and $(4): a module and the folder of its manifests, which are kept beside it.
define program
$(1)_SOURCES := $(sort $(wildcard $(CONTROLPLANE_DIR)/programs/$(1)/*))
$(1)_BIN := $(ARRANGER_CACHE)/$(1)-$$(shell cat $$($(1)_SOURCES) | sha256sum | cut -c1-16)/$(1)

.PHONY: $(1)
$(1): $$($(1)_BIN)

$$($(1)_BIN): | $$($(1)_SOURCES)
	@command -v go >/dev/null || { echo "make $(1): needs Go, which is not installed"; exit 2; }
	@echo "building $(1) (a minute or two the first time)"
	@rm -rf $$(@D) && mkdir -p $$(@D)
	cd $(CONTROLPLANE_DIR)/programs/$(1) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" \
		-o $$@.part $(2)
	$(if $(3),@cd $(CONTROLPLANE_DIR)/programs/$(1) && \
		cp -r "$$$$(go list -m -f '{{.Dir}}' $(3))/$(4)" $$(@D)/manifests && chmod -R u+w $$(@D)/manifests)
	@mv $$@.part $$@
endef
$(eval $(call program,kubectl,.))
$(eval $(call program,training-operator,tool,github.com/kubeflow/training-operator,manifests))
$(eval $(call program,descheduler,tool,sigs.k8s.io/descheduler,kubernetes))

.PHONY: programs
programs: kubectl training-operator descheduler ## Build kubectl, Kubeflow's operator and the descheduler for tests (needs Go)
