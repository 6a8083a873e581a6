//! Settings that buckets never have here: answered as AWS answers if they are not set.

use super::{Answer, Call, Context};
use crate::fault::{Code, Fault, Outcome};
use crate::headers::refuse_unsupported;
use crate::operation::Operation;
use crate::xml::Xml;

/// `GetBucketAccelerateConfiguration`, `GetBucketRequestPayment`, `GetBucketReplication`, and the lists of
/// analytics, inventory, metrics and intelligent tiering; each of which may ask for one by its id.
pub fn get(cx: &Context, call: &mut Call, op: Operation) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    call.open()?;
    let mut xml = Xml::new();
    let list = match op {
        Operation::GetBucketAccelerateConfiguration => {
            xml.root("AccelerateConfiguration").close();
            return Ok(Answer::document(xml));
        }
        Operation::GetBucketRequestPayment => {
            xml.root("RequestPaymentConfiguration").leaf("Payer", "BucketOwner").close();
            return Ok(Answer::document(xml));
        }
        Operation::GetBucketReplication => {
            return Err(Fault::new(Code::NO_REPLICATION).element("BucketName", call.bucket.as_str()));
        }
        Operation::ListBucketAnalyticsConfigurations => "ListBucketAnalyticsConfigurationResult",
        Operation::ListBucketInventoryConfigurations => "ListInventoryConfigurationsResult",
        Operation::ListBucketMetricsConfigurations => "ListMetricsConfigurationsResult",
        Operation::ListBucketIntelligentTieringConfigurations => {
            "ListBucketIntelligentTieringConfigurationsOutput"
        }
        other => return Err(Fault::internal(other.name())),
    };
    if call.query.has("id") {
        return Err(Fault::new(Code::NO_SUCH_CONFIGURATION).element("BucketName", call.bucket.as_str()));
    }
    xml.root(list).plain("IsTruncated", "false").close();
    Ok(Answer::document(xml))
}
