package console

// A read is a read of personal data as the API shows it.
type read struct {
	At        string `json:"at"`
	Count     int64  `json:"count"`
	Kind      string `json:"kind"`
	Subject   string `json:"subject"`
	Route     string `json:"route"`
	RequestID string `json:"requestId"`
	Actor     string `json:"actor"`
	ActorName string `json:"actorName"`
}

type readsPage struct {
	Actor, Subject, Kind string
	Kinds                []string
	Reads                list[read]
}

// readFilters are the parameters of the list of reads.
var readFilters = []string{"actor", "subject", "kind", "since", "until"}

func (c *Console) listReads(r *request) error {
	p := readsPage{
		Actor: r.query("actor"), Subject: r.query("subject"), Kind: r.query("kind"),
		Kinds: []string{"account", "prospect", "entry", "delivery", "list", "export"},
	}
	var err error
	if p.Reads, err = readList[read](r, "/reads", readFilters...); err != nil {
		return err
	}
	return r.show("reads", "audit", "Reads of personal data", p)
}
