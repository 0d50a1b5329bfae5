package spire

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	agentv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/agent/v1"
	bundlev1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/bundle/v1"
	entryv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/entry/v1"
	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"
)

const (
	pageSize    = 500
	bundleEvery = 500 * time.Millisecond // how often a missing bundle is looked for
)

// registrar brings the plan's entries into a server and leaves alone whatever an operator did to them.
type registrar struct {
	api         *Server
	plan        *plan
	trustDomain string
	log         *slog.Logger
	record      *record
}

func newRegistrar(api *Server, plan *plan, trustDomain string, cfg ServerConfig) (*registrar, error) {
	rec, err := openRecord(filepath.Join(cfg.StateDir, "entries.json"))
	if err != nil {
		return nil, err
	}
	return &registrar{api: api, plan: plan, trustDomain: trustDomain, log: cfg.Log, record: rec}, nil
}

// ensure makes the entries that were never made.
func (r *registrar) ensure(ctx context.Context) error {
	have, err := r.list(ctx)
	if err != nil {
		return err
	}
	if err := r.forget(ctx, len(have)); err != nil {
		return err
	}
	for _, want := range r.plan.entries {
		if err := r.ensureOne(ctx, want.in(r.trustDomain), have); err != nil {
			return err
		}
	}
	r.sayUnwanted(have)
	return nil
}

// sayUnwanted warns of trust domains that swarmd's entries federate with although they are not in the plan any more. To end
// that is the operator's: it cuts off nodes.
func (r *registrar) sayUnwanted(have map[string]content) {
	unwanted := map[string]bool{}
	for id := range r.record.entries {
		for _, d := range have[id].FederatesWith {
			unwanted[d] = !slices.Contains(r.plan.federates, d)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(unwanted)) {
		if unwanted[d] {
			r.log.Warn("registration entries still federate with a trust domain that --federates-with does not name", "trust_domain", d,
				"command", "spire-server bundle delete -socketPath "+shellWord(r.api.socket)+" -id spiffe://"+d+" -mode dissociate")
		}
	}
}

// forget empties the record if the server's datastore is a new one: it has no entry and has never seen an agent.
func (r *registrar) forget(ctx context.Context, entries int) error {
	if entries > 0 || len(r.record.entries) == 0 {
		return nil
	}
	agents, err := r.api.agents.CountAgents(ctx, &agentv1.CountAgentsRequest{})
	if err != nil {
		return r.api.failed("count agents", err)
	}
	if agents.Count > 0 {
		return nil
	}
	r.log.Warn("the SPIRE server's datastore is new: all entries are made again")
	clear(r.record.entries)
	return r.record.save()
}

func (r *registrar) ensureOne(ctx context.Context, want content, have map[string]content) error {
	got, exists := have[want.ID]
	made, known := r.record.entries[want.ID]
	switch {
	case exists && known && got.same(made):
		return nil
	case exists && !known && got.same(want):
		return r.record.put(want) // this process's predecessor died before it could
	case exists && known && r.onlyFederates(got, made):
		return r.record.put(got) // the same, while it let the entry federate
	case exists:
		r.log.Info("registration entry was edited and is left alone", "entry_id", want.ID, "spiffe_id", got.SPIFFEID)
		return nil
	}
	if other, ok := similar(have, want); ok {
		r.log.Info("registration entry exists under another ID and is left alone", "entry_id", other.ID, "spiffe_id", other.SPIFFEID)
		return nil
	}
	if known {
		r.log.Warn("registration entry was deleted and is not made again", "entry_id", want.ID, "spiffe_id", want.SPIFFEID,
			"command", want.command("create", r.api.socket))
		return nil
	}
	if err := r.api.create(ctx, want.proto()); err != nil {
		return err
	}
	r.log.Info("registration entry created", "entry_id", want.ID, "spiffe_id", want.SPIFFEID, "parent_id", want.ParentID)
	return r.record.put(want)
}

// onlyFederates reports whether got is made with nothing but trust domains of the plan added, and others taken away.
func (r *registrar) onlyFederates(got, made content) bool {
	for _, d := range made.FederatesWith {
		if !slices.Contains(got.FederatesWith, d) && slices.Contains(r.plan.federates, d) {
			return false
		}
	}
	for _, d := range got.FederatesWith {
		if !slices.Contains(made.FederatesWith, d) && !slices.Contains(r.plan.federates, d) {
			return false
		}
	}
	made.FederatesWith = got.FederatesWith
	return got.same(made)
}

// similar finds an entry for the same identity and the same agents.
func similar(have map[string]content, want content) (content, bool) {
	for _, id := range slices.Sorted(maps.Keys(have)) {
		if e := have[id]; e.SPIFFEID == want.SPIFFEID && e.ParentID == want.ParentID {
			return e, true
		}
	}
	return content{}, false
}

// list returns all entries of the server by ID.
func (r *registrar) list(ctx context.Context) (map[string]content, error) {
	have := map[string]content{}
	req := &entryv1.ListEntriesRequest{PageSize: pageSize}
	for {
		resp, err := r.api.entries.ListEntries(ctx, req)
		if err != nil {
			return nil, r.api.failed("list entries", err)
		}
		for _, e := range resp.Entries {
			have[e.Id] = contentOf(e)
		}
		if req.PageToken = resp.NextPageToken; req.PageToken == "" {
			return have, nil
		}
	}
}

// federate adds the domains to the entries that are as swarmd wrote them. It returns the domains of which the server has
// no bundle yet: it refuses to name those.
func (r *registrar) federate(ctx context.Context, domains []string) (missing []string, err error) {
	if len(domains) == 0 {
		return nil, nil
	}
	bundles, err := r.bundles(ctx)
	if err != nil {
		return nil, err
	}
	var present []string
	for _, d := range domains {
		if bundles[d] {
			present = append(present, d)
		} else {
			missing = append(missing, d)
		}
	}
	if len(present) == 0 {
		return missing, nil
	}
	have, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range r.subjects(have) {
		if err := r.federateOne(ctx, have[id], present); err != nil {
			return nil, err
		}
	}
	r.log.Info("registration entries federate with trust domains", "trust_domains", strings.Join(present, ", "))
	return missing, nil
}

// subjects are the IDs of the entries that should federate: all that swarmd made, and those that stand in for them.
func (r *registrar) subjects(have map[string]content) []string {
	ids := map[string]bool{}
	for id := range r.record.entries {
		if _, ok := have[id]; ok {
			ids[id] = true
		}
	}
	for _, want := range r.plan.entries {
		if _, ok := have[want.ID]; ok {
			ids[want.ID] = true
		} else if other, ok := similar(have, want.in(r.trustDomain)); ok {
			ids[other.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

func (r *registrar) federateOne(ctx context.Context, got content, domains []string) error {
	want := got
	want.FederatesWith = slices.Clone(got.FederatesWith)
	for _, d := range domains {
		if !slices.Contains(want.FederatesWith, d) {
			want.FederatesWith = append(want.FederatesWith, d)
		}
	}
	slices.Sort(want.FederatesWith)
	if want.same(got) {
		return nil
	}
	if made, ok := r.record.entries[got.ID]; !ok || !made.same(got) {
		r.log.Warn("registration entry is not as swarmd made it and is left alone, so its nodes do not federate", "entry_id", got.ID,
			"spiffe_id", got.SPIFFEID, "command", want.command("update", r.api.socket))
		return nil
	}
	resp, err := r.api.entries.BatchUpdateEntry(ctx, &entryv1.BatchUpdateEntryRequest{
		Entries: []*types.Entry{{Id: got.ID, FederatesWith: want.FederatesWith}}, InputMask: &types.EntryMask{FederatesWith: true},
	})
	if err != nil {
		return r.api.failed("update entry", err)
	}
	for _, result := range resp.Results {
		if err := resultError("update entry "+got.ID, result.Status); err != nil {
			return err
		}
	}
	return r.record.put(want)
}

// bundles returns the names of the foreign trust domains of which the server has the bundle.
func (r *registrar) bundles(ctx context.Context) (map[string]bool, error) {
	have := map[string]bool{}
	req := &bundlev1.ListFederatedBundlesRequest{OutputMask: &types.BundleMask{}, PageSize: pageSize}
	for {
		resp, err := r.api.bundles.ListFederatedBundles(ctx, req)
		if err != nil {
			return nil, r.api.failed("list federated bundles", err)
		}
		for _, b := range resp.Bundles {
			have[b.TrustDomain] = true
		}
		if req.PageToken = resp.NextPageToken; req.PageToken == "" {
			return have, nil
		}
	}
}

// awaitBundles blocks until every missing bundle has come and its domain is in the entries, or ctx ends.
func (r *registrar) awaitBundles(ctx context.Context, missing []string) {
	for _, d := range missing {
		r.log.Warn("waiting for the trust bundle of a domain to federate with: the server fetches it if its configuration says from where, else set it",
			"trust_domain", d, "command", "spire-server bundle set -socketPath "+shellWord(r.api.socket)+" -format spiffe -id spiffe://"+d+" < bundle.json")
	}
	tick := time.NewTicker(bundleEvery)
	defer tick.Stop()
	said := ""
	for len(missing) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		rest, err := r.federate(ctx, missing)
		switch {
		case err == nil:
			missing = rest
		case ctx.Err() == nil && err.Error() != said: // no reason to end a server that nodes rely on
			said = err.Error()
			r.log.Warn("registration entries can not be changed, trying again", "error", err)
		}
	}
}
