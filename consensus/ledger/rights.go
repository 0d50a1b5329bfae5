package ledger

// Rights are sentences that say who of operators and auditors may do what, from here on, in place of those before.
type Rights struct {
	Sentences []string `json:"sentences"`
	By        string   `json:"by"` // SPIFFE ID of who set them
	Order     *Order   `json:"order,omitempty"`
}

// Kind implements Body.
func (Rights) Kind() string { return "rights" }
