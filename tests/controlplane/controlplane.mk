# Builds the control plane that tests and benchmarks run against, once per change of its sources,
# into a cache folder outside git. Needs Go; about 5–12 minutes cold, a second when cached.
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

$(CONTROLPLANE_BIN): $(CONTROLPLANE_SOURCES)
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

$(ORACLE_BIN): $(ORACLE_SOURCES)
	@command -v go >/dev/null || { echo "make oracle: needs Go, which is not installed"; exit 2; }
	@echo "building the oracle (some minutes the first time)"
	@mkdir -p $(@D)
	cd $(CONTROLPLANE_DIR) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" \
		-o $@.part ./cmd/oracle
	@mv $@.part $@

# kubectl, as it is published: what the documentation says is typed by a test. A module of its own,
# so that its dependencies do not touch those of the control plane.
KUBECTL_SOURCES := $(addprefix $(CONTROLPLANE_DIR)/kubectl/,go.mod go.sum main.go)
KUBECTL_HASH := $(shell cat $(KUBECTL_SOURCES) | sha256sum | cut -c1-16)
KUBECTL_BIN := $(ARRANGER_CACHE)/kubectl-$(KUBECTL_HASH)/kubectl

.PHONY: kubectl
kubectl: $(KUBECTL_BIN) ## Build kubectl for the test that types the documentation (needs Go)

$(KUBECTL_BIN): $(KUBECTL_SOURCES)
	@command -v go >/dev/null || { echo "make kubectl: needs Go, which is not installed"; exit 2; }
	@echo "building kubectl (a minute the first time)"
	@mkdir -p $(@D)
	cd $(CONTROLPLANE_DIR)/kubectl && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o $@.part .
	@mv $@.part $@
