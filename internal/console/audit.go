package console

import "github.com/go-json-experiment/json/jsontext"

// A record is a record of the audit log as the API shows it.
type record struct {
	Number    int64          `json:"number"`
	At        string         `json:"at"`
	Actor     string         `json:"actor"`
	ActorName string         `json:"actorName"`
	Action    string         `json:"action"`
	Subject   string         `json:"subject"`
	RequestID string         `json:"requestId"`
	Detail    jsontext.Value `json:"detail"`
	Redacted  bool           `json:"redacted"`
}

// Tree returns the detail of a record as a tree.
func (r record) Tree() node {
	tree, err := parseNode(r.Detail)
	if err != nil {
		return node{Kind: kindValue, Text: shorten(maxText, string(r.Detail))}
	}
	return tree
}

type auditPage struct {
	Subject, Actor, Action string
	Records                list[record]
}

// auditFilters are the parameters of the list of audit records.
var auditFilters = []string{"subject", "actor", "action", "since", "until"}

func (c *Console) listAudit(r *request) error {
	p := auditPage{Subject: r.query("subject"), Actor: r.query("actor"), Action: r.query("action")}
	var err error
	if p.Records, err = readList[record](r, "/audit", auditFilters...); err != nil {
		return err
	}
	return r.show("audit", "audit", "Audit log", p)
}
