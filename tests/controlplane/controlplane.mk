# Builds the control plane that tests and benchmarks run against, once per change of its sources,
# into a cache folder outside git that is named after their hash. Needs Go; about 5–12 minutes cold.
CONTROLPLANE_DIR := tests/controlplane
ARRANGER_CACHE ?= $(HOME)/.cache/arranger

# Our own programs in Go. $(1): its folder in cmd; $(2): what its variables begin with; $(3): what is
# said while it is built.
define command
$(2)_SOURCES := $(CONTROLPLANE_DIR)/go.mod $(CONTROLPLANE_DIR)/go.sum \
	$$(sort $$(wildcard $(CONTROLPLANE_DIR)/cmd/$(1)/*.go))
$(2)_BIN := $(ARRANGER_CACHE)/$(1)-$$(shell cat $$($(2)_SOURCES) | sha256sum | cut -c1-16)/arranger-$(1)

.PHONY: $(1)
$(1): $$($(2)_BIN)

$$($(2)_BIN): | $$($(2)_SOURCES)
	@command -v go >/dev/null || { echo "make $(1): needs Go, which is not installed"; exit 2; }
	@echo "building $(3)"
	@mkdir -p $$(@D)
	cd $(CONTROLPLANE_DIR) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" \
		-o $$@.part ./cmd/$(1)
	@mv $$@.part $$@
endef
$(eval $(call command,controlplane,CONTROLPLANE,the control plane (some minutes the first time)))
# kube-scheduler's own plugins over snapshots, for comparison with ours.
$(eval $(call command,oracle,ORACLE,the oracle (some minutes the first time)))
# kube-scheduler's own evaluation of selectors of devices, and what it costs.
$(eval $(call command,celjudge,CELJUDGE,the judge of selectors (a minute the first time)))
# Kubernetes' own reader of quantities.
$(eval $(call command,quantityjudge,QUANTITYJUDGE,the judge of quantities))
# An API server that stores and checks nothing, for `bench_one_leader`.
$(eval $(call command,stubserver,STUBSERVER,the server for benchmarks))

controlplane: ## Build the real control plane for tests (needs Go)
oracle: ## Build the oracle that judges snapshots for tests (needs Go)
celjudge: ## Build the judge of selectors of devices for tests (needs Go)
quantityjudge: ## Build the judge of quantities for tests (needs Go)
stubserver: ## Build the API server that costs nearly nothing, for benchmarks (needs Go)

# Empty where the binary neither exists nor can be built: `make test` then leaves this tier out and
# says so. (make's own exit status is 2 whatever went wrong.)
CONTROLPLANE_POSSIBLE := $(or $(wildcard $(CONTROLPLANE_BIN)),$(shell command -v go))

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
