package swci

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/policy/rights"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// maxRightsFile bounds a file of sentences, comments included.
const maxRightsFile = 4 * rights.MaxBytes

func rightsCommands() []*Command {
	return []*Command{
		{
			Pattern: "get rights", Group: "Rights", Shell: true,
			Summary: "Show who of operators and auditors may do what",
			Details: "Prints the sentences that the swarm has, one a line, as \"set rights\" takes them. In a swarm without any, roles alone decide: docs/security.md has what each may do.",
			Example: "get rights",
			JSON:    rightsJSON{},
			Run:     getRights,
		},
		{
			Pattern: "set rights FILE", Group: "Rights", Shell: true,
			Summary: "Replace the sentences that say who of operators and auditors may do what",
			Details: "FILE has sentences such as \"Allow spiffe://hospital-a.example/swarm/swci/* to use contracts where contract.name='study'\", each in a new line; lines that follow with an indent belong to it, lines with # are comments. From then on operators and auditors may do what a sentence allows and their role may do, and nothing else.\n\n" +
				"You must be able to set rights afterwards: a sentence has to let you manage rights, or all-resources. The order is signed, and recorded in the ledger.",
			Example: "set rights rights.txt",
			JSON:    rightsJSON{},
			Run:     setRights,
		},
		{
			Pattern: "explain right VERB RESOURCE [NAME] [as] [SPIFFEID]", Group: "Rights", Shell: true,
			Summary: "Show whether somebody may do something in the swarm, and which sentence decides",
			Details: "VERB is inspect, read, use or manage, and RESOURCE tasks, jobs, contracts, nodes, models, logs or rights. NAME is of the task, contract or node that is meant; without it a sentence that names some does not count. Asks about yourself, unless a SPIFFE ID is given.\n\nEnds with exit code 4 if it is not allowed.",
			Example: "explain right use contracts study as spiffe://hospital-a.example/swarm/swci/anna",
			JSON:    explainedRightJSON{},
			Run:     explainRight,
		},
	}
}

// rightsJSON is `get rights -o json` and `set rights -o json`.
type rightsJSON struct {
	Sentences []string `json:"sentences" doc:"in the order in which they are judged; none: roles alone decide"`
	By        string   `json:"by" doc:"SPIFFE ID of who set them; empty: nobody has"`
	Set       *string  `json:"set" doc:"when; RFC 3339, UTC"`
}

func rightsToJSON(r *swarmv1.Rights) rightsJSON {
	out := rightsJSON{Sentences: r.GetSentences(), By: r.GetBy(), Set: stamp(r.GetSetUnixMs())}
	if out.Sentences == nil {
		out.Sentences = []string{}
	}
	return out
}

func getRights(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		r, err := api.GetRights(ctx)
		if err != nil {
			return fmt.Errorf("get rights: %w", err)
		}
		return s.show(rightsToJSON(r), func() error {
			if r == nil {
				_, err := fmt.Fprintln(s.Env.Stdout, "# nobody has set rights: roles alone decide")
				return err
			}
			fmt.Fprintf(s.Env.Stdout, "# set by %s\n", text.Line(r.GetBy()))
			for _, one := range r.GetSentences() {
				fmt.Fprintln(s.Env.Stdout, text.Line(one))
			}
			return nil
		})
	})
}

func setRights(ctx context.Context, s *Session, args Args) error {
	sentences, err := readRights(args.Value("FILE"))
	if err != nil {
		return err
	}
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		r, err := api.SetRights(ctx, sentences)
		if err != nil {
			return fmt.Errorf("set rights: %w", err)
		}
		return s.show(rightsToJSON(r), func() error {
			_, err := fmt.Fprintf(s.Env.Stdout, "set: operators and auditors may do what these sentences allow: %d\n", len(r.GetSentences()))
			return err
		})
	})
}

// readRights reads the sentences of a file.
func readRights(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRightsFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxRightsFile {
		return nil, exit.New(exit.Usage, "", "%s has more than %d bytes", name, maxRightsFile)
	}
	sentences, err := rights.ParseText(name, string(data))
	if err != nil {
		return nil, exit.New(exit.Usage, "docs/operations/rights.md has what sentences look like", "%v", err)
	}
	return sentences, nil
}

// explainedRightJSON is `explain right -o json`.
type explainedRightJSON struct {
	Allowed  bool   `json:"allowed" doc:"by role and by rights"`
	Number   uint32 `json:"number" doc:"of the sentence that decides, from 1; 0: none does"`
	Sentence string `json:"sentence" doc:"the same; if it is not allowed the one that comes nearest"`
	Reason   string `json:"reason" doc:"why no sentence allows it, or none is needed"`
}

func explainRight(ctx context.Context, s *Session, args Args) error {
	name, as := args.Value("NAME"), args.Has("as")
	if strings.EqualFold(name, "as") && !as && args.Value("SPIFFEID") != "" {
		name, as = "", true // no name was given
	}
	if as != (args.Value("SPIFFEID") != "") {
		return exit.New(exit.Usage, "explain right VERB RESOURCE [NAME] [as SPIFFEID]", "explain right: as and a SPIFFE ID go together")
	}
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		r, err := api.ExplainRight(ctx, &swarmv1.ExplainRightRequest{
			Verb: strings.ToLower(args.Value("VERB")), Resource: strings.ToLower(args.Value("RESOURCE")), Name: name, SpiffeId: args.Value("SPIFFEID"),
		})
		if err != nil {
			return fmt.Errorf("explain right: %w", err)
		}
		switch answer := (explainedRightJSON{r.GetAllowed(), r.GetNumber(), r.GetSentence(), r.GetReason()}); {
		case s.JSON:
			err = printJSON(s.Env.Stdout, answer)
		case r.GetAllowed():
			_, err = fmt.Fprintln(s.Env.Stdout, "allowed, "+decidedBy(r))
		}
		if err == nil && !r.GetAllowed() {
			err = exit.New(exit.Denied, "see all sentences: swarmctl get rights", "not allowed, %s", decidedBy(r))
		}
		return err
	})
}

// decidedBy says which sentence decides, and why.
func decidedBy(r *swarmv1.ExplainRightResponse) string {
	switch sentence := fmt.Sprintf("sentence %d: %s", r.GetNumber(), r.GetSentence()); {
	case r.GetNumber() == 0:
		return text.Line(r.GetReason())
	case r.GetAllowed():
		return text.Line("by " + sentence)
	default:
		return text.Line("as " + r.GetReason() + "; nearest is " + sentence)
	}
}
