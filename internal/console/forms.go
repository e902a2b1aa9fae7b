package console

import "atrium"

// A form is what users change something with.
type form struct {
	scope     atrium.Scope // that the change needs
	operators bool         // it is for operators only
	size      int64        // maximum size, in bytes; 0 for maxForm
	page      page
}

// Maximum sizes of forms, in bytes. What a browser sends can have three times the bytes of what a user has entered.
const (
	maxForm        = 64 << 10
	maxExpressions = 512 << 10 // with the expressions of a receiver or webhook
	maxContent     = 2 << 20   // with the content of a page, and what it was before, or with a request to try
)

// forms returns the forms by pattern.
func (c *Console) forms() map[string]form {
	return map[string]form{
		prefix + "/tenants":                                      {scope: atrium.ScopeManage, operators: true, page: again(c.createTenant, c.listTenants, 0)},
		of + "/tenant/{action}":                                  {scope: atrium.ScopeManage, operators: true, page: again(c.changeTenant, c.showTenant, 1)},
		of + "/accounts":                                         {scope: atrium.ScopeManageAccounts, page: again(c.createAccount, c.listAccounts, 0)},
		of + "/accounts/{account_id}":                            {scope: atrium.ScopeManageAccounts, page: again(c.renameAccount, c.showAccount, 0)},
		of + "/accounts/{account_id}/merge":                      {scope: atrium.ScopeManageAccounts, page: again(c.mergeAccount, c.mergePage, 0)},
		of + "/accounts/{account_id}/split":                      {scope: atrium.ScopeManageAccounts, page: again(c.splitAccount, c.showAccount, 1)},
		of + "/accounts/{account_id}/erase":                      {scope: atrium.ScopeManageAccounts, page: again(c.eraseAccount, c.erasePage, 0)},
		of + "/accounts/{account_id}/prospects":                  {scope: atrium.ScopeManageAccounts, page: again(c.createProspect, c.showAccount, 1)},
		of + "/accounts/{account_id}/unlink":                     {scope: atrium.ScopeManageAccounts, page: again(c.unlinkProspect, c.showAccount, 1)},
		of + "/accounts/{account_id}/link":                       {scope: atrium.ScopeManageAccounts, page: again(c.linkProspect, c.showAccount, 1)},
		of + "/prospects/{prospect_id}":                          {scope: atrium.ScopeManageAccounts, page: again(c.updateProspect, c.showProspect, 0)},
		of + "/prospects/{prospect_id}/link":                     {scope: atrium.ScopeManageAccounts, page: again(c.linkToAccount, c.showProspect, 1)},
		of + "/prospects/{prospect_id}/delete":                   {scope: atrium.ScopeManageAccounts, page: again(c.deleteProspect, c.showProspect, 1)},
		of + "/activity/summaries":                               {scope: atrium.ScopeManageAccounts, page: c.changeSummaries},
		of + "/activity/{entry_id}/move":                         {scope: atrium.ScopeManageAccounts, page: again(c.moveEntry, c.showEntry, 1)},
		of + "/moves":                                            {scope: atrium.ScopeManageAccounts, page: c.createMoves},
		of + "/moves/{move_id}/undo":                             {scope: atrium.ScopeManageAccounts, page: again(c.undoMove, c.listMoves, 2)},
		of + "/pages":                                            {scope: atrium.ScopeManagePages, page: again(c.createPage, c.newPage, 0)},
		of + "/pages/{page_id}/{action}":                         {scope: atrium.ScopeManagePages, page: again(c.changePage, c.showPage, 1)},
		of + "/pages/{page_id}/edit":                             {scope: atrium.ScopeManagePages, size: maxContent, page: c.savePage},
		of + "/pages/{page_id}/schedule":                         {scope: atrium.ScopeManagePages, page: again(c.schedulePage, c.showPage, 1)},
		of + "/pages/{page_id}/audiences":                        {scope: atrium.ScopeManagePages, page: again(c.createAudience, c.showPage, 1)},
		of + "/pages/{page_id}/audiences/{audience_id}/versions": {scope: atrium.ScopeManagePages, size: maxContent, page: c.createVersion},
		of + "/pages/{page_id}/audiences/{audience_id}/versions/{number}/{action}": {scope: atrium.ScopeManagePages, page: again(c.changeVersion, c.showAudience, 3)},
		of + "/pages/{page_id}/audiences/{audience_id}/{action}":                   {scope: atrium.ScopeManagePages, page: again(c.changeAudience, c.showAudience, 1)},
		of + "/pages/{page_id}/previews/{preview_id}/end":                          {scope: atrium.ScopeManagePages, page: again(c.endPreview, c.showPage, 3)},
		of + "/brands":                                                       {scope: atrium.ScopeManagePages, page: again(c.createBrand, c.listBrands, 0)},
		of + "/brands/{brand_id}/{action}":                                   {scope: atrium.ScopeManagePages, page: again(c.changeBrand, c.listBrands, 2)},
		of + "/webhooks":                                                     {scope: atrium.ScopeManageEvents, size: maxExpressions, page: again(c.createWebhook, c.listWebhooks, 0)},
		of + "/webhooks/events":                                              {scope: atrium.ScopeManageEvents, page: again(c.switchEvents, c.listWebhooks, 1)},
		of + "/webhooks/{webhook_id}/edit":                                   {scope: atrium.ScopeManageEvents, size: maxExpressions, page: again(c.saveWebhook, c.editWebhook, 0)},
		of + "/webhooks/{webhook_id}/{action}":                               {scope: atrium.ScopeManageEvents, page: again(c.changeWebhook, c.showWebhook, 1)},
		of + "/webhooks/{webhook_id}/deliveries/{event_id}/redeliver":        {scope: atrium.ScopeManageEvents, page: again(c.redeliver, c.showDelivery, 1)},
		of + "/webhooks/{webhook_id}/replays":                                {scope: atrium.ScopeManageEvents, page: c.createReplay},
		of + "/webhooks/{webhook_id}/replays/{replay_id}/cancel":             {scope: atrium.ScopeManageEvents, page: again(c.cancelReplay, c.showWebhook, 3)},
		of + "/receivers":                                                    {scope: atrium.ScopeManageReceivers, size: maxExpressions, page: again(c.createReceiver, c.listReceivers, 0)},
		of + "/receivers/{receiver_id}/edit":                                 {scope: atrium.ScopeManageReceivers, size: maxExpressions, page: again(c.saveReceiver, c.editReceiver, 0)},
		of + "/receivers/{receiver_id}/try":                                  {scope: atrium.ScopeManageReceivers, size: maxContent, page: again(c.tryReceiver, c.showReceiver, 1)},
		of + "/receivers/{receiver_id}/{action}":                             {scope: atrium.ScopeManageReceivers, page: again(c.changeReceiver, c.showReceiver, 1)},
		of + "/receivers/{receiver_id}/quarantine/{quarantined_id}/{action}": {scope: atrium.ScopeManageReceivers, page: again(c.changeQuarantined, c.showQuarantined, 1)},
		of + "/keys":                       {scope: atrium.ScopeManageKeys, page: again(c.createKey, c.listKeys, 0)},
		of + "/keys/{key_id}/rotate":       {scope: atrium.ScopeManageKeys, page: again(c.rotateKey, c.listKeys, 2)},
		of + "/keys/{key_id}/revoke":       {scope: atrium.ScopeManageKeys, page: again(c.revokeKey, c.listKeys, 2)},
		of + "/people":                     {scope: atrium.ScopeManageUsers, page: again(c.createPerson, c.listPeople, 0)},
		of + "/people/groups":              {scope: atrium.ScopeManageUsers, page: again(c.mapGroup, c.listPeople, 1)},
		of + "/people/groups/{mapping_id}": {scope: atrium.ScopeManageUsers, page: again(c.unmapGroup, c.listPeople, 2)},
		of + "/people/{user_id}/{action}":  {scope: atrium.ScopeManageUsers, page: again(c.changePerson, c.showPerson, 1)},
		of + "/privacy/person":             {scope: atrium.ScopeManageErase, page: c.findPerson},
		of + "/privacy/retention":          {scope: atrium.ScopeManageErase, page: c.changeRetention},
	}
}
