package rpc_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/quota"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestAccessTableNamesEveryMethod(t *testing.T) {
	table := rpc.AccessTable()
	seen := map[string]bool{}
	services := swarmv1.File_api_swarm_v1_swarm_proto.Services()
	for i := range services.Len() {
		for j := range services.Get(i).Methods().Len() {
			m := services.Get(i).Methods().Get(j)
			name := fmt.Sprintf("/%s/%s", services.Get(i).FullName(), m.Name())
			seen[name] = true
			if len(table[name].Roles) == 0 {
				t.Errorf("%s has no option access in swarm.proto", name)
			}
			for _, role := range table[name].Roles {
				if !slices.Contains(identity.Roles(), role) {
					t.Errorf("%s lets the role %q call, which is none", name, role)
				}
			}
		}
	}
	for name := range table {
		if !seen[name] {
			t.Errorf("the access table names %s, which is no method", name)
		}
	}
}

func TestAccessTableGolden(t *testing.T) {
	var lines []string
	for name, a := range rpc.AccessTable() {
		line := fmt.Sprintf("%s roles=%v token=%v any_swarm=%v", name, a.Roles, a.Token, a.AnySwarm)
		lines = append(lines, line)
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const path = "testdata/access.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, string(want)); d != "" {
		t.Errorf("privileges changed (-got +want); run with -update if that is meant:\n%s", d)
	}
}

func TestErrorsTravelWithReasonAndRemedy(t *testing.T) {
	errs, reasons, codes := rpc.Rows()
	for i, e := range errs {
		wrapped := fmt.Errorf("do something: %w", e)
		ce, detail := onWire(t, wrapped)
		if ce.Code() != codes[i] || detail.GetReason() != reasons[i] {
			t.Errorf("%v travels as %v %q, want %v %q", e, ce.Code(), detail.GetReason(), codes[i], reasons[i])
		}
		if got := rpc.ReasonOf(wrapped); got != reasons[i] {
			t.Errorf("ReasonOf(%v) = %q, want %q", wrapped, got, reasons[i])
		}
		if !errors.Is(e, context.Canceled) && detail.GetRemedy() == "" {
			t.Errorf("%s has no remedy", reasons[i])
		}
	}
}

func TestEveryRejectionOfTheStateTravelsWithItsReason(t *testing.T) {
	codes := map[connect.Code]state.Category{}
	for category, reasons := range state.Reasons() {
		for _, reason := range reasons {
			ce, detail := onWire(t, fmt.Errorf("propose: %w", &state.Error{Reason: reason, Message: "no"}))
			if detail.GetReason() != reason || ce.Code() == connect.CodeInternal || codes[ce.Code()] != 0 && codes[ce.Code()] != category {
				t.Errorf("%s of category %d travels as %v %q", reason, category, ce.Code(), detail.GetReason())
			}
			codes[ce.Code()] = category
		}
	}
	if ce, detail := onWire(t, &state.Error{Reason: "NEWER", Message: "no"}); ce.Code() != connect.CodeInternal || detail.GetReason() != rpc.ReasonInternal {
		t.Errorf("a reason that the state does not know travels as %v %q", ce.Code(), detail.GetReason())
	}
}

func TestStateErrorBringsItsRemedy(t *testing.T) {
	ce, detail := onWire(t, &state.Error{Reason: state.ReasonOpenSessions, Message: "2 open sessions", Remedy: "add FORCE"})
	if ce.Message() != "2 open sessions" || detail.GetRemedy() != "add FORCE" || ce.Code() != connect.CodeFailedPrecondition {
		t.Errorf("got %v %q %+v", ce.Code(), ce.Message(), detail)
	}
}

func TestUnknownErrorTellsNothing(t *testing.T) {
	ce, detail := onWire(t, errors.New("open /var/lib/secret: permission denied"))
	if ce.Code() != connect.CodeInternal || strings.Contains(ce.Error(), "secret") || detail.GetReason() != rpc.ReasonInternal {
		t.Errorf("got %v %+v", ce, detail)
	}
}

func onWire(t *testing.T, err error) (*connect.Error, *swarmv1.ErrorReason) {
	t.Helper()
	ce, ok := errors.AsType[*connect.Error](rpc.ToConnect(err))
	if !ok || len(ce.Details()) != 1 {
		t.Fatalf("%v travels as %v", err, rpc.ToConnect(err))
	}
	v, verr := ce.Details()[0].Value()
	if verr != nil {
		t.Fatal(verr)
	}
	return ce, v.(*swarmv1.ErrorReason)
}

// TestEverySentinelHasARow reads the sources, so that an error that is added without a row is found.
func TestEverySentinelHasARow(t *testing.T) {
	errs, _, _ := rpc.Rows()
	for _, e := range append(rpc.OwnErrors(), quota.ErrTooFast, quota.ErrBusy) {
		if !slices.ContainsFunc(errs, func(x error) bool { return errors.Is(e, x) }) {
			t.Errorf("%v has no row", e)
		}
	}
	if got, want := len(rpc.OwnErrors()), len(declared(t, "errors.go", "Err")); got != want {
		t.Errorf("OwnErrors lists %d sentinels, errors.go declares %d", got, want)
	}
}

// declared returns the package-level names of a file with a prefix.
func declared(t *testing.T, file, prefix string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR && g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			if name := s.(*ast.ValueSpec).Names[0].Name; strings.HasPrefix(name, prefix) {
				out = append(out, name)
			}
		}
	}
	return out
}

func TestReferenceListsEveryReason(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rpc.Reasons() {
		if !strings.Contains(string(page), "| `"+r+"` |") {
			t.Errorf("docs/reference/errors.md has no row for %s", r)
		}
	}
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			if !slices.Contains(append(rpc.Reasons(), "UNREACHABLE", "SWARMS_DIFFER", "LOG_REFUSED", "LOG_ENDED", "HOST_SILENT"), name) {
				t.Errorf("docs/reference/errors.md lists %s, which is no reason", name)
			}
		}
	}
}
