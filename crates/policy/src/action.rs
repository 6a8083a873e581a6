//! The table of actions: everything that a policy can allow or deny.
//!
//! It also has AWS's actions that this server does not support, so that AWS's policies can be read.
//! Invariants: a name occurs once, in the spelling of AWS (`s3:`, `sts:`, `kms:`) or MinIO (`admin:`, and
//! MinIO's own `s3:` names); the number of an action is stable only during a process and never stored. Must
//! not depend on: operations or routes; the API layer maps those onto actions.

/// The kind of resource that an action applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// No resource: its resource is the empty name, which `*` and `arn:aws:s3:::*` match.
    Service,
    /// A bucket.
    Bucket,
    /// An object, a version or an upload.
    Object,
    /// A key of the key manager.
    Kms,
}

macro_rules! actions {
    ($($level:ident { $($id:ident = $name:literal,)* })*) => {
        /// An action: what a request wants to do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Action { $($($id,)*)* }

        impl Action {
            /// Every action.
            pub const ALL: &'static [Action] = &[$($(Action::$id,)*)*];

            /// Its name, such as `s3:GetObject`.
            pub const fn name(self) -> &'static str {
                match self { $($(Action::$id => $name,)*)* }
            }

            /// The kind of resource that it concerns.
            pub const fn level(self) -> Level {
                match self { $($(Action::$id)|* => Level::$level,)* }
            }
        }
    };
}

actions! {
    Object {
        AbortMultipartUpload = "s3:AbortMultipartUpload",
        BypassGovernanceRetention = "s3:BypassGovernanceRetention",
        DeleteObject = "s3:DeleteObject",
        DeleteObjectTagging = "s3:DeleteObjectTagging",
        DeleteObjectVersion = "s3:DeleteObjectVersion",
        DeleteObjectVersionTagging = "s3:DeleteObjectVersionTagging",
        GetObject = "s3:GetObject",
        GetObjectAcl = "s3:GetObjectAcl",
        GetObjectAttributes = "s3:GetObjectAttributes",
        GetObjectLegalHold = "s3:GetObjectLegalHold",
        GetObjectRetention = "s3:GetObjectRetention",
        GetObjectTagging = "s3:GetObjectTagging",
        GetObjectTorrent = "s3:GetObjectTorrent",
        GetObjectVersion = "s3:GetObjectVersion",
        GetObjectVersionAcl = "s3:GetObjectVersionAcl",
        GetObjectVersionAttributes = "s3:GetObjectVersionAttributes",
        GetObjectVersionForReplication = "s3:GetObjectVersionForReplication",
        GetObjectVersionTagging = "s3:GetObjectVersionTagging",
        GetObjectVersionTorrent = "s3:GetObjectVersionTorrent",
        InitiateReplication = "s3:InitiateReplication",
        ListMultipartUploadParts = "s3:ListMultipartUploadParts",
        ObjectOwnerOverrideToBucketOwner = "s3:ObjectOwnerOverrideToBucketOwner",
        PutObject = "s3:PutObject",
        PutObjectAcl = "s3:PutObjectAcl",
        PutObjectFanOut = "s3:PutObjectFanOut",
        PutObjectLegalHold = "s3:PutObjectLegalHold",
        PutObjectRetention = "s3:PutObjectRetention",
        PutObjectTagging = "s3:PutObjectTagging",
        PutObjectVersionAcl = "s3:PutObjectVersionAcl",
        PutObjectVersionTagging = "s3:PutObjectVersionTagging",
        ReplicateDelete = "s3:ReplicateDelete",
        ReplicateObject = "s3:ReplicateObject",
        ReplicateTags = "s3:ReplicateTags",
        RestoreObject = "s3:RestoreObject",
    }
    Bucket {
        CreateBucket = "s3:CreateBucket",
        CreateBucketMetadataTableConfiguration = "s3:CreateBucketMetadataTableConfiguration",
        DeleteBucket = "s3:DeleteBucket",
        DeleteBucketMetadataTableConfiguration = "s3:DeleteBucketMetadataTableConfiguration",
        DeleteBucketOwnershipControls = "s3:DeleteBucketOwnershipControls",
        DeleteBucketPolicy = "s3:DeleteBucketPolicy",
        DeleteBucketWebsite = "s3:DeleteBucketWebsite",
        ForceDeleteBucket = "s3:ForceDeleteBucket",
        GetAccelerateConfiguration = "s3:GetAccelerateConfiguration",
        GetAnalyticsConfiguration = "s3:GetAnalyticsConfiguration",
        GetBucketAcl = "s3:GetBucketAcl",
        GetBucketCors = "s3:GetBucketCORS",
        GetBucketLocation = "s3:GetBucketLocation",
        GetBucketLogging = "s3:GetBucketLogging",
        GetBucketMetadataTableConfiguration = "s3:GetBucketMetadataTableConfiguration",
        GetBucketNotification = "s3:GetBucketNotification",
        GetBucketObjectLockConfiguration = "s3:GetBucketObjectLockConfiguration",
        GetBucketOwnershipControls = "s3:GetBucketOwnershipControls",
        GetBucketPolicy = "s3:GetBucketPolicy",
        GetBucketPolicyStatus = "s3:GetBucketPolicyStatus",
        GetBucketPublicAccessBlock = "s3:GetBucketPublicAccessBlock",
        GetBucketRequestPayment = "s3:GetBucketRequestPayment",
        GetBucketTagging = "s3:GetBucketTagging",
        GetBucketVersioning = "s3:GetBucketVersioning",
        GetBucketWebsite = "s3:GetBucketWebsite",
        GetEncryptionConfiguration = "s3:GetEncryptionConfiguration",
        GetIntelligentTieringConfiguration = "s3:GetIntelligentTieringConfiguration",
        GetInventoryConfiguration = "s3:GetInventoryConfiguration",
        GetLifecycleConfiguration = "s3:GetLifecycleConfiguration",
        GetMetricsConfiguration = "s3:GetMetricsConfiguration",
        GetReplicationConfiguration = "s3:GetReplicationConfiguration",
        HeadBucket = "s3:HeadBucket",
        ListBucket = "s3:ListBucket",
        ListBucketMultipartUploads = "s3:ListBucketMultipartUploads",
        ListBucketVersions = "s3:ListBucketVersions",
        ListenBucketNotification = "s3:ListenBucketNotification",
        PutAccelerateConfiguration = "s3:PutAccelerateConfiguration",
        PutAnalyticsConfiguration = "s3:PutAnalyticsConfiguration",
        PutBucketAcl = "s3:PutBucketAcl",
        PutBucketCors = "s3:PutBucketCORS",
        PutBucketLogging = "s3:PutBucketLogging",
        PutBucketNotification = "s3:PutBucketNotification",
        PutBucketObjectLockConfiguration = "s3:PutBucketObjectLockConfiguration",
        PutBucketOwnershipControls = "s3:PutBucketOwnershipControls",
        PutBucketPolicy = "s3:PutBucketPolicy",
        PutBucketPublicAccessBlock = "s3:PutBucketPublicAccessBlock",
        PutBucketRequestPayment = "s3:PutBucketRequestPayment",
        PutBucketTagging = "s3:PutBucketTagging",
        PutBucketVersioning = "s3:PutBucketVersioning",
        PutBucketWebsite = "s3:PutBucketWebsite",
        PutEncryptionConfiguration = "s3:PutEncryptionConfiguration",
        PutIntelligentTieringConfiguration = "s3:PutIntelligentTieringConfiguration",
        PutInventoryConfiguration = "s3:PutInventoryConfiguration",
        PutLifecycleConfiguration = "s3:PutLifecycleConfiguration",
        PutMetricsConfiguration = "s3:PutMetricsConfiguration",
        PutReplicationConfiguration = "s3:PutReplicationConfiguration",
        ResetBucketReplicationState = "s3:ResetBucketReplicationState",
        AdminExportBucketMetadata = "admin:ExportBucketMetadata",
        AdminGetBucketQuota = "admin:GetBucketQuota",
        AdminGetBucketTarget = "admin:GetBucketTarget",
        AdminImportBucketMetadata = "admin:ImportBucketMetadata",
        AdminReplicationDiff = "admin:ReplicationDiff",
        AdminSetBucketQuota = "admin:SetBucketQuota",
        AdminSetBucketTarget = "admin:SetBucketTarget",
    }
    Service {
        CreateAccessPoint = "s3:CreateAccessPoint",
        CreateJob = "s3:CreateJob",
        CreateSession = "s3:CreateSession",
        DeleteAccessPoint = "s3:DeleteAccessPoint",
        DescribeJob = "s3:DescribeJob",
        GetAccessPoint = "s3:GetAccessPoint",
        GetAccountPublicAccessBlock = "s3:GetAccountPublicAccessBlock",
        GetStorageLensConfiguration = "s3:GetStorageLensConfiguration",
        ListAccessPoints = "s3:ListAccessPoints",
        ListAllMyBuckets = "s3:ListAllMyBuckets",
        ListJobs = "s3:ListJobs",
        ListStorageLensConfigurations = "s3:ListStorageLensConfigurations",
        ListTagsForResource = "s3:ListTagsForResource",
        ListenNotification = "s3:ListenNotification",
        PutAccountPublicAccessBlock = "s3:PutAccountPublicAccessBlock",
        PutStorageLensConfiguration = "s3:PutStorageLensConfiguration",
        TagResource = "s3:TagResource",
        UntagResource = "s3:UntagResource",
        UpdateJobPriority = "s3:UpdateJobPriority",
        UpdateJobStatus = "s3:UpdateJobStatus",
        StsAssumeRole = "sts:AssumeRole",
        StsAssumeRoleWithCertificate = "sts:AssumeRoleWithCertificate",
        StsAssumeRoleWithCustomToken = "sts:AssumeRoleWithCustomToken",
        StsAssumeRoleWithLdapIdentity = "sts:AssumeRoleWithLDAPIdentity",
        StsAssumeRoleWithSaml = "sts:AssumeRoleWithSAML",
        StsAssumeRoleWithWebIdentity = "sts:AssumeRoleWithWebIdentity",
        StsGetCallerIdentity = "sts:GetCallerIdentity",
        StsGetSessionToken = "sts:GetSessionToken",
        StsTagSession = "sts:TagSession",
        AdminAddUserToGroup = "admin:AddUserToGroup",
        AdminAttachPolicy = "admin:AttachUserOrGroupPolicy",
        AdminAudit = "admin:Audit",
        AdminAuditSearch = "admin:AuditSearch",
        AdminObjectPlacement = "admin:ObjectPlacement",
        AdminSimulateLifecycle = "admin:SimulateLifecycle",
        AdminTestEventTarget = "admin:TestEventTarget",
        AdminTestSignIn = "admin:TestSignIn",
        AdminBandwidthMonitor = "admin:BandwidthMonitor",
        AdminCancelBatchJob = "admin:CancelBatchJob",
        AdminConfigUpdate = "admin:ConfigUpdate",
        AdminConsoleLog = "admin:ConsoleLog",
        AdminCreatePolicy = "admin:CreatePolicy",
        AdminCreateServiceAccount = "admin:CreateServiceAccount",
        AdminCreateUser = "admin:CreateUser",
        AdminDataUsageInfo = "admin:DataUsageInfo",
        AdminDecommission = "admin:Decommission",
        AdminDeletePolicy = "admin:DeletePolicy",
        AdminDeleteUser = "admin:DeleteUser",
        AdminDescribeBatchJob = "admin:DescribeBatchJob",
        AdminDisableGroup = "admin:DisableGroup",
        AdminDisableUser = "admin:DisableUser",
        AdminEnableGroup = "admin:EnableGroup",
        AdminEnableUser = "admin:EnableUser",
        AdminExportIam = "admin:ExportIAM",
        AdminForceUnlock = "admin:ForceUnlock",
        AdminGenerateBatchJob = "admin:GenerateBatchJob",
        AdminGetGroup = "admin:GetGroup",
        AdminGetPolicy = "admin:GetPolicy",
        AdminGetUser = "admin:GetUser",
        AdminHeal = "admin:Heal",
        AdminHealLimits = "admin:HealLimits",
        AdminHealthInfo = "admin:OBDInfo",
        AdminImportIam = "admin:ImportIAM",
        AdminInspectData = "admin:InspectData",
        AdminKmsCreateKey = "admin:KMSCreateKey",
        AdminKmsKeyStatus = "admin:KMSKeyStatus",
        AdminLicenseInfo = "admin:LicenseInfo",
        AdminListBatchJobs = "admin:ListBatchJobs",
        AdminListGroups = "admin:ListGroups",
        AdminListServiceAccounts = "admin:ListServiceAccounts",
        AdminListTemporaryAccounts = "admin:ListTemporaryAccounts",
        AdminListTier = "admin:ListTier",
        AdminListUserPolicies = "admin:ListUserPolicies",
        AdminListUsers = "admin:ListUsers",
        AdminProfiling = "admin:Profiling",
        AdminPrometheus = "admin:Prometheus",
        AdminRebalance = "admin:Rebalance",
        AdminRemoveServiceAccount = "admin:RemoveServiceAccount",
        AdminRemoveUserFromGroup = "admin:RemoveUserFromGroup",
        AdminRevokeTemporaryAccounts = "admin:RevokeTemporaryAccounts",
        AdminServerInfo = "admin:ServerInfo",
        AdminServerTrace = "admin:ServerTrace",
        AdminServerUpdate = "admin:ServerUpdate",
        AdminServiceCordon = "admin:ServiceCordon",
        AdminServiceFreeze = "admin:ServiceFreeze",
        AdminServiceRestart = "admin:ServiceRestart",
        AdminServiceStop = "admin:ServiceStop",
        AdminSetTier = "admin:SetTier",
        AdminSiteReplicationAdd = "admin:SiteReplicationAdd",
        AdminSiteReplicationDisable = "admin:SiteReplicationDisable",
        AdminSiteReplicationInfo = "admin:SiteReplicationInfo",
        AdminSiteReplicationOperation = "admin:SiteReplicationOperation",
        AdminSiteReplicationRemove = "admin:SiteReplicationRemove",
        AdminSiteReplicationResync = "admin:SiteReplicationResync",
        AdminStartBatchJob = "admin:StartBatchJob",
        AdminStorageInfo = "admin:StorageInfo",
        AdminTopLocksInfo = "admin:TopLocksInfo",
        AdminUpdatePolicyAssociation = "admin:UpdatePolicyAssociation",
        AdminUpdateServiceAccount = "admin:UpdateServiceAccount",
        KmsApi = "kms:API",
        KmsAudit = "kms:Audit",
        KmsErrorLog = "kms:ErrorLog",
        KmsMetrics = "kms:Metrics",
        KmsStatus = "kms:Status",
        KmsVersion = "kms:Version",
    }
    Kms {
        KmsCreateKey = "kms:CreateKey",
        KmsDecrypt = "kms:Decrypt",
        KmsDeleteKey = "kms:DeleteKey",
        KmsDescribeKey = "kms:DescribeKey",
        KmsEncrypt = "kms:Encrypt",
        KmsGenerateDataKey = "kms:GenerateDataKey",
        KmsImportKey = "kms:ImportKey",
        KmsKeyStatus = "kms:KeyStatus",
        KmsListKeys = "kms:ListKeys",
        KmsRotateKey = "kms:RotateKey",
    }
}

/// Words of an [`ActionSet`].
const WORDS: usize = 4;
const _: () = assert!(Action::ALL.len() <= WORDS * 64, "more actions than an ActionSet has room for");

impl Action {
    /// The action of that name; the case of letters does not matter, as in AWS.
    pub fn find(name: &str) -> Option<Action> {
        Action::ALL.iter().copied().find(|a| a.name().eq_ignore_ascii_case(name))
    }

    /// The service before the colon: `s3`, `admin`, `sts` or `kms`.
    pub fn service(self) -> &'static str {
        self.name().split(':').next().unwrap_or_default()
    }
}

/// A set of actions; one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// Adds one.
    pub fn insert(&mut self, action: Action) {
        self.0[action as usize / 64] |= 1 << (action as usize % 64);
    }

    /// Whether it is in.
    #[inline]
    pub fn contains(&self, action: Action) -> bool {
        self.0[action as usize / 64] >> (action as usize % 64) & 1 == 1
    }

    /// Everything that is not in.
    pub fn complement(&self) -> ActionSet {
        Action::ALL.iter().copied().filter(|a| !self.contains(*a)).collect()
    }

    /// Adds all of another set.
    pub fn extend_from(&mut self, other: &ActionSet) {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a |= b;
        }
    }

    /// Whether nothing is in.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The members, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Action> + '_ {
        Action::ALL.iter().copied().filter(|a| self.contains(*a))
    }

    /// Every action that the text names: a name, or a name with `*` and `?`, in any case of letters.
    pub fn matching(text: &str) -> ActionSet {
        if !text.contains(['*', '?']) {
            return Action::find(text).into_iter().collect();
        }
        let pattern = crate::pattern::Pattern::glob(&text.to_ascii_lowercase());
        Action::ALL
            .iter()
            .copied()
            .filter(|a| pattern.matches_plain(&a.name().to_ascii_lowercase()))
            .collect()
    }
}

impl FromIterator<Action> for ActionSet {
    fn from_iter<I: IntoIterator<Item = Action>>(iter: I) -> Self {
        let mut set = ActionSet::default();
        iter.into_iter().for_each(|a| set.insert(a));
        set
    }
}

/// The known action whose name is most similar to a wrong one, if it is similar enough.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let low = name.to_ascii_lowercase();
    Action::ALL
        .iter()
        .map(|a| (distance(&low, &a.name().to_ascii_lowercase()), a.name()))
        .min()
        .filter(|(d, _)| *d <= 3)
        .map(|(_, n)| n)
}

/// Edit distance (Levenshtein, one row); texts longer than 64 bytes count as maximally different.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let next = (corner + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_are_found() {
        for (i, a) in Action::ALL.iter().enumerate() {
            assert_eq!(*a as usize, i);
            assert_eq!(Action::find(&a.name().to_uppercase()), Some(*a), "{}", a.name());
            assert!(["s3", "admin", "sts", "kms"].contains(&a.service()));
        }
    }

    #[test]
    fn patterns_select_sets_of_actions() {
        let set = ActionSet::matching("s3:GetObject*");
        assert!(set.contains(Action::GetObjectVersion) && !set.contains(Action::GetBucketAcl));
        assert_eq!(ActionSet::matching("*").iter().count(), Action::ALL.len());
        assert_eq!(ActionSet::matching("S3:getobject").iter().collect::<Vec<_>>(), [Action::GetObject]);
        assert!(ActionSet::matching("s3:Nothing*").is_empty());
        assert!(
            !set.complement().contains(Action::GetObject) && set.complement().contains(Action::PutObject)
        );
        assert_eq!(nearest("s3:GetObjct"), Some("s3:GetObject"));
        assert_eq!(nearest("ec2:RunInstances"), None);
    }
}
