package swci

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	ids "github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

func createContractCommand() *Command {
	return &Command{
		Pattern: "create contract NAME", Group: "Contracts", Shell: true,
		Summary: "Create a training contract, or set its rules",
		Details: "Makes the contract if there is none. The options are all its rules: a rule that is left out is removed. Rules bind every session and every round: a session that asks for something else is refused, and its error shows both; one that leaves method or minPeers open takes the contract's; no round is planned that breaks a rule (\"explain contract NAME\" says which). Rules outlive \"reset contract\". They can't be changed while sessions are open. Setting the same rules again changes nothing.\n\nA merge method is written as a name, with parameters in parentheses if need be: mean, trimmedmean(share=0.2), krum(f=1), or mean(wire=bfloat16) for slow links.",
		Example: "create contract study --method \"trimmedmean(share=0.2)\" --min-peers 5 --require hospital-a --weight-cap 0.4",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "method", Usage: "`METHOD` by which models are merged, with its parameters"},
			&cli.IntFlag{Name: "min-peers", Usage: "least number `N` of peers of a round"},
			&cli.IntFlag{Name: "expected-peers", Usage: "the first round waits for `N` peers, but no longer than the quorum wait"},
			&cli.StringSliceFlag{Name: "require", Usage: "`NAME` of an SL without which no round is planned; repeatable"},
			&cli.StringSliceFlag{Name: "allow", Usage: "`PATTERN` of SPIFFE IDs, such as spiffe://b.example/swarm/sl/*, whose SLs may take part; repeatable; without one every SL may"},
			&cli.StringSliceFlag{Name: "owners", Usage: "`PATTERN` of SPIFFE IDs whose SLs own parts of the model, that is merge them and see them of every contribution, whatever their weight; repeatable; without one every SL of a weight above 0 does"},
			&cli.StringSliceFlag{Name: "curves", Usage: "`PATTERN` of SPIFFE IDs, such as spiffe://a.example/swarm/swci/**, which are shown the loss and the metric of each peer; all others are shown the mean of all peers; repeatable; without one all are shown each peer's who may ask"},
			&cli.IntFlag{Name: "witnesses", Usage: "each part of the model is merged by `K` nodes of different parties, 2 to 8, which all see that part of every contribution; with 2 a wrong merge is found, with 3 its author is named; without it the owner alone merges"},
			&cli.Float64Flag{Name: "min-weight-share", Usage: "`SHARE`, 0 to 1, of the weight of all enrolled peers that the peers of a round must hold"},
			&cli.Float64Flag{Name: "weight-cap", Usage: "`SHARE`, 0 to 1, of a round's weight that one peer counts for at most"},
			&cli.BoolFlag{Name: "export", Usage: "swarmctl may fetch models from the SLs that hold them"},
			&cli.StringFlag{Name: "non-finite", Usage: "what NaN or infinity in a peer's weights ends: `WHAT` is drop (its session, the default) or fail (all sessions)"},
			&cli.StringFlag{Name: "checkin-default", Usage: "what a peer contributes after its training's end if its program does not choose (checkinModelOnTrainEnd): `MODE` is snapshot, active, inactive or once; without it the option of its node decides"},
			&cli.DurationFlag{Name: "quorum-wait", Usage: "`TIME` that a round waits for the rest once minPeers are ready"},
			&cli.DurationFlag{Name: "stall-grace", Usage: "`TIME` that the same peers try again when a merge stalls"},
			&cli.DurationFlag{Name: "min-peers-timeout", Usage: "all sessions fail when fewer than minPeers were there for `TIME`"},
		},
		JSON: ruledJSON{},
		Run:  createContract,
	}
}

// ruledJSON is `create contract NAME -o json`.
type ruledJSON struct {
	Name  string     `json:"name" doc:"the contract's"`
	Run   uint64     `json:"run" doc:"number of its run, from 1"`
	Rules *rulesJSON `json:"rules" doc:"null when it has none"`
}

func (r ruledJSON) words(l *lines) { l.say("CONTRACT CREATED : " + r.Name) }

// rulesJSON are a contract's rules.
type rulesJSON struct {
	Method          string   `json:"method" doc:"with all parameters; empty: sessions choose"`
	MinPeers        uint32   `json:"min_peers" doc:"0: sessions choose"`
	ExpectedPeers   uint32   `json:"expected_peers" doc:"0: sessions choose"`
	Required        []string `json:"required" doc:"SLs without which no round is planned"`
	Allow           []string `json:"allow" doc:"patterns of the SPIFFE IDs whose SLs may take part; none: every SL may"`
	Owners          []string `json:"owners" doc:"patterns of the SPIFFE IDs whose SLs own parts of the model; none: every SL of a weight above 0"`
	Curves          []string `json:"curves" doc:"patterns of the SPIFFE IDs which are shown the loss and the metric of each peer; none: all who may ask"`
	Witnesses       uint32   `json:"witnesses" doc:"how many nodes merge each part of the model; 0: its owner alone"`
	MinWeightShare  float64  `json:"min_weight_share" doc:"0: none"`
	WeightCap       float64  `json:"weight_cap" doc:"0: none"`
	Export          bool     `json:"export" doc:"swarmctl may fetch models"`
	NonFinite       string   `json:"non_finite" doc:"drop or fail; empty is drop"`
	CheckinDefault  string   `json:"checkin_default" doc:"check-in mode of sessions whose programs choose none; empty: as their nodes say"`
	QuorumWait      float64  `json:"quorum_wait" doc:"seconds, 0: as the nodes say"`
	StallGrace      float64  `json:"stall_grace" doc:"seconds, 0: as the nodes say"`
	MinPeersTimeout float64  `json:"min_peers_timeout" doc:"seconds, 0: none"`
}

// skipsJSON counts rounds that were given up.
type skipsJSON struct {
	Count  uint64  `json:"count" doc:"how many"`
	Round  uint64  `json:"round" doc:"the last one; its number is used again"`
	Reason string  `json:"reason" doc:"why that one was given up"`
	At     *string `json:"at" doc:"RFC 3339, UTC"`
}

func skipsToJSON(k *swarmv1.Skips) *skipsJSON {
	if k == nil {
		return nil
	}
	return &skipsJSON{Count: k.GetCount(), Round: k.GetRound(), Reason: k.GetReason(), At: stamp(k.GetAtUnixMs())}
}

// lostJSON is a model that no node held any more.
type lostJSON struct {
	Round        uint64  `json:"round" doc:"whose model was lost"`
	Digest       string  `json:"digest" doc:"BLAKE3 of the model, in hex"`
	ResumedRound uint64  `json:"resumed_round" doc:"whose model training went on from, 0: it began anew"`
	At           *string `json:"at" doc:"RFC 3339, UTC"`
}

// adoptedJSON is a model that the SNs took over.
type adoptedJSON struct {
	Round       uint64  `json:"round" doc:"the number that the model has since"`
	ProvenRound uint64  `json:"proven_round" doc:"the round in which it was merged"`
	LastRound   uint64  `json:"last_round" doc:"the last round that the backup knew, 0: none"`
	Signed      uint32  `json:"signed" doc:"so many nodes' signatures prove it"`
	At          *string `json:"at" doc:"RFC 3339, UTC"`
}

// explainJSON is `explain contract NAME -o json`.
type explainJSON struct {
	Name        string        `json:"name" doc:"the contract's"`
	Run         uint64        `json:"run" doc:"number of the run, from 1"`
	Phase       string        `json:"phase" doc:"uninitialised, enrolling, training, paused, finalising or completed"`
	Round       uint64        `json:"round" doc:"last committed round of this run, 0 before the first"`
	Waiting     string        `json:"waiting" doc:"the reason in one line, empty while a round runs"`
	Stuck       bool          `json:"stuck" doc:"the reason is something that should not last; programs that train and a first attempt to merge are no such thing, unless a node of one is dead"`
	Explanation []string      `json:"explanation" doc:"line by line, for people"`
	Training    []warningJSON `json:"training_warnings" doc:"what is probably wrong with the training of this run; among explanation too"`
	NoQuorum    *noQuorumJSON `json:"no_quorum" doc:"null, or that too few SNs answer the one that was asked; exit code 7 then"`
}

func rulesToJSON(r *swarmv1.Rules) *rulesJSON {
	if r == nil {
		return nil
	}
	return &rulesJSON{
		Method: r.GetMethod(), MinPeers: r.GetMinPeers(), ExpectedPeers: r.GetExpectedPeers(), Required: append([]string{}, r.GetRequired()...),
		Allow:  append([]string{}, r.GetAllow()...),
		Curves: append([]string{}, r.GetCurves()...),
		Owners: append([]string{}, r.GetOwners()...), Witnesses: r.GetWitnesses(),
		MinWeightShare: r.GetMinWeightShare(), WeightCap: r.GetWeightCap(), Export: r.GetExport(), NonFinite: r.GetNonFinite(),
		CheckinDefault: r.GetCheckinDefault(),
		QuorumWait:     seconds(r.GetQuorumWaitMs()), StallGrace: seconds(r.GetStallGraceMs()), MinPeersTimeout: seconds(r.GetMinPeersTimeoutMs()),
	}
}

func seconds(ms uint32) float64 { return float64(ms) / 1000 }

func lostToJSON(l *swarmv1.LostModel) *lostJSON {
	if l == nil {
		return nil
	}
	return &lostJSON{Round: l.GetRound(), Digest: l.GetDigest(), ResumedRound: l.GetResumedRound(), At: stamp(l.GetAtUnixMs())}
}

func adoptedToJSON(a *swarmv1.AdoptedRound) *adoptedJSON {
	if a == nil {
		return nil
	}
	return &adoptedJSON{Round: a.GetRound(), ProvenRound: a.GetProvenRound(), LastRound: a.GetLastRound(), Signed: a.GetSigned(), At: stamp(a.GetAtUnixMs())}
}

// backupOf names how far training was when the backup was made.
func backupOf(a *swarmv1.AdoptedRound) string {
	if a.GetLastRound() == 0 {
		return "before the first round"
	}
	return "round " + utoa(a.GetLastRound())
}

func createContract(ctx context.Context, s *Session, args Args) error {
	rules, err := rulesOf(args.Opts)
	if err != nil {
		return err
	}
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("NAME")
		c, err := api.CreateContract(ctx, name, rules)
		if err != nil {
			return fmt.Errorf("create contract %q: %w", name, err)
		}
		if err := warnOfUnknown(ctx, s, api, c.GetRules().GetRequired()); err != nil {
			return err
		}
		return s.show(ruledJSON{Name: c.GetName(), Run: c.GetRun(), Rules: rulesToJSON(c.GetRules())}, func() error {
			if rules := rulesText(c.GetRules()); rules != "" {
				fmt.Fprintf(s.Env.Stdout, "contract %s: %s\n", text.Line(c.GetName()), text.Line(rules))
				return nil
			}
			fmt.Fprintf(s.Env.Stdout, "contract %s has no rules\n", text.Line(c.GetName()))
			return nil
		})
	})
}

// warnOfUnknown says which required SLs never registered: rightly so before they are started, or a name is misspelt.
func warnOfUnknown(ctx context.Context, s *Session, api client.Operator, required []string) error {
	if len(required) == 0 {
		return nil
	}
	list, err := api.ListNodes(ctx)
	if err != nil {
		return fmt.Errorf("the rules are set, but whether all required SLs are known is not: list nodes: %w", err)
	}
	for _, name := range required {
		if !slices.ContainsFunc(list.GetNodes(), func(n *swarmv1.Node) bool { return n.GetName() == name && n.GetRole() == "sl" }) {
			fmt.Fprintf(s.Env.Stderr, "swarmctl: no SL %s has registered yet: no round is planned before it takes part\n", text.Line(name))
		}
	}
	return nil
}

// rulesOf reads the rules from the options.
func rulesOf(opts *cli.Context) (*swarmv1.Rules, error) {
	r := &swarmv1.Rules{Required: opts.StringSlice("require"), Allow: opts.StringSlice("allow"), Owners: opts.StringSlice("owners"), Curves: opts.StringSlice("curves"), Export: opts.Bool("export"), NonFinite: opts.String("non-finite")}
	var err error
	if r.CheckinDefault, err = checkinMode(opts.String("checkin-default")); err != nil {
		return nil, err
	}
	for _, list := range []struct {
		option, role string
		of           []string
	}{{"--allow", "sl", r.Allow}, {"--owners", "sl", r.Owners}, {"--curves", "ROLE", r.Curves}} {
		if _, err := ids.ParseList(list.of); err != nil {
			return nil, exit.New(exit.Usage, "write spiffe://DOMAIN/swarm/"+list.role+"/NAME, with * for any name", "%s: %v", list.option, err)
		}
	}
	if text := opts.String("method"); text != "" {
		m, err := merge.ParseMethod(text)
		if err != nil {
			return nil, exit.New(exit.Usage, methodHint(text), "--method: %v", err)
		}
		r.Method = m.String()
	}
	if r.NonFinite != "" && r.NonFinite != "drop" && r.NonFinite != "fail" {
		return nil, exit.New(exit.Usage, "use drop or fail", "--non-finite %q is not known", r.NonFinite)
	}
	for _, x := range []struct {
		name string
		into *uint32
	}{{"min-peers", &r.MinPeers}, {"expected-peers", &r.ExpectedPeers}, {"witnesses", &r.Witnesses}} {
		n := opts.Int(x.name)
		if n < 0 || n > math.MaxInt32 || n == 0 && opts.IsSet(x.name) {
			return nil, exit.New(exit.Usage, "give a number from 1", "--%s %d is not valid", x.name, n)
		}
		*x.into = uint32(n) //nolint:gosec // bounded above
	}
	for _, x := range []struct {
		name string
		into *float64
	}{{"min-weight-share", &r.MinWeightShare}, {"weight-cap", &r.WeightCap}} {
		share := opts.Float64(x.name)
		if !(share >= 0 && share <= 1) {
			return nil, exit.New(exit.Usage, "give a share of the whole, such as 0.4", "--%s %g is not valid", x.name, share)
		}
		*x.into = share
	}
	return r, waitsOf(opts, r)
}

// checkinMode reads --checkin-default; empty: it is not given.
func checkinMode(given string) (string, error) {
	mode := strings.ToLower(given)
	if mode != "" && !slices.Contains(checkinModes, mode) {
		hint := "use " + strings.Join(checkinModes[:len(checkinModes)-1], ", ") + " or " + checkinModes[len(checkinModes)-1]
		return "", exit.New(exit.Usage, hint, "--checkin-default %q is not known", given)
	}
	return mode, nil
}

// checkinModes are what a peer can contribute after its training's end.
var checkinModes = []string{"snapshot", "active", "inactive", "once"}

// methodHint names the method that was meant; docs/reference/methods.md lists all with their parameters.
func methodHint(text string) string {
	name, _, _ := strings.Cut(strings.ToLower(text), "(")
	if near := suggest.Word(strings.TrimSpace(name), merge.Methods()); near != "" && near != strings.TrimSpace(name) {
		return "did you mean " + near + "?"
	}
	return "write a name, or a name with parameters as in trimmedmean(share=0.2); docs/reference/methods.md explains all"
}

func waitsOf(opts *cli.Context, r *swarmv1.Rules) error {
	for _, x := range []struct {
		name string
		into *uint32
	}{{"quorum-wait", &r.QuorumWaitMs}, {"stall-grace", &r.StallGraceMs}, {"min-peers-timeout", &r.MinPeersTimeoutMs}} {
		d := opts.Duration(x.name)
		if opts.IsSet(x.name) && d < time.Millisecond || d.Milliseconds() > math.MaxUint32 {
			return exit.New(exit.Usage, "give a time such as 90s or 5m", "--%s %s is not valid", x.name, d)
		}
		*x.into = uint32(d.Milliseconds()) //nolint:gosec // bounded above
	}
	return nil
}

// rulesText is what rules demand, in one line; empty for nothing.
func rulesText(r *swarmv1.Rules) string {
	var parts []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	wait := func(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }
	add(r.GetMethod() != "", "method %s", r.GetMethod())
	add(r.GetMinPeers() > 0, "min peers %d", r.GetMinPeers())
	add(r.GetExpectedPeers() > 0, "expected peers %d", r.GetExpectedPeers())
	add(len(r.GetRequired()) > 0, "required %s", strings.Join(r.GetRequired(), ", "))
	add(len(r.GetOwners()) > 0, "owned by %s", strings.Join(r.GetOwners(), ", "))
	add(r.GetWitnesses() > 0, "each part merged by %d", r.GetWitnesses())
	add(len(r.GetAllow()) > 0, "open to %s", strings.Join(r.GetAllow(), ", "))
	add(len(r.GetCurves()) > 0, "curves of each peer shown to %s", strings.Join(r.GetCurves(), ", "))
	add(r.GetMinWeightShare() > 0, "weight share at least %s", decimal(r.GetMinWeightShare()))
	add(r.GetWeightCap() > 0, "weight cap %s", decimal(r.GetWeightCap()))
	add(r.GetExport(), "models may be fetched")
	add(r.GetNonFinite() != "", "not finite: %s", r.GetNonFinite())
	add(r.GetCheckinDefault() != "", "check-in %s unless programs choose", r.GetCheckinDefault())
	add(r.GetQuorumWaitMs() > 0, "quorum wait %s", wait(r.GetQuorumWaitMs()))
	add(r.GetStallGraceMs() > 0, "stall grace %s", wait(r.GetStallGraceMs()))
	add(r.GetMinPeersTimeoutMs() > 0, "min-peers timeout %s", wait(r.GetMinPeersTimeoutMs()))
	return strings.Join(parts, ", ")
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func explainContract(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("NAME")
		st, err := api.GetRecentStatus(ctx, name, 1) // no line is about rounds of before
		if err != nil {
			return fmt.Errorf("explain contract %q: %w", name, err)
		}
		if err := printExplanation(s, st); err != nil {
			return err
		}
		if err := s.shown(st.GetNoQuorum()); err != nil {
			return fmt.Errorf("explain contract %q: %w", name, err)
		}
		return nil
	})
}

func printExplanation(s *Session, st *swarmv1.GetContractStatusResponse) error {
	if s.JSON {
		c := st.GetContract()
		return printJSON(s.Env.Stdout, explainJSON{
			Name: c.GetName(), Run: c.GetRun(), Phase: c.GetPhase(), Round: c.GetCommitted().GetRound(),
			Waiting: st.GetWaiting(), Stuck: isStuck(st), Explanation: append([]string{}, st.GetExplanation()...), Training: warningsToJSON(st.GetTrainingWarnings()), NoQuorum: noQuorumToJSON(st.GetNoQuorum()),
		})
	}
	for _, line := range st.GetExplanation() {
		fmt.Fprintln(s.Env.Stdout, text.Line(line))
	}
	return nil
}
