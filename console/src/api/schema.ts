// Made by `npm run api` from the server's OpenAPI document: do not edit.
export interface paths {
    "/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:AuditSearch. */
        get: operations["AuditSearch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/cluster": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ServerInfo. */
        get: operations["ClusterStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/cluster/authority": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Decommission. */
        post: operations["ClusterAuthority"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/cluster/control-members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Decommission. */
        post: operations["ClusterControlMembers"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/cluster/may-stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ServerInfo. */
        get: operations["ClusterMayStop"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/cluster/remove": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Decommission. */
        post: operations["ClusterRemove"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/cluster/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Decommission. */
        post: operations["ClusterToken"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/cluster/upgrade": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:ServerUpdate. */
        post: operations["ClusterUpgrade"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/dead-letters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ConfigUpdate. */
        get: operations["DeadLetterList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/dead-letters/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** @description Permitted by admin:ConfigUpdate. */
        delete: operations["DeadLetterRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/dead-letters/{name}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:ConfigUpdate. */
        post: operations["DeadLetterReplay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/drives": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:StorageInfo. */
        get: operations["Drives"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/drives/offline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Decommission. */
        post: operations["DriveOffline"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/drives/online": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Decommission. */
        post: operations["DriveOnline"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/drives/recover": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:Heal. */
        get: operations["DriveRecovery"];
        put?: never;
        /** @description Permitted by admin:Heal. */
        post: operations["DriveRecover"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/drives/replace": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Heal. */
        post: operations["DriveReplace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/drives/scrub": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Heal. */
        post: operations["DriveScrub"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ServerInfo. */
        get: operations["EventList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/events/{name}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:TestEventTarget. */
        post: operations["EventTest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ListGroups. */
        get: operations["GroupList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/groups/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:GetGroup. */
        get: operations["GroupGet"];
        put?: never;
        post?: never;
        /** @description Permitted by admin:RemoveUserFromGroup. */
        delete: operations["GroupRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/groups/{name}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:DisableGroup. */
        post: operations["GroupDisable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/groups/{name}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:EnableGroup. */
        post: operations["GroupEnable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/groups/{name}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:AddUserToGroup or admin:RemoveUserFromGroup. */
        post: operations["GroupMembers"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/heal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:Heal. */
        get: operations["HealStatus"];
        put?: never;
        /** @description Permitted by admin:Heal. */
        post: operations["HealStart"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/heal/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:Heal or admin:HealLimits. */
        get: operations["HealLimits"];
        /** @description Permitted by admin:HealLimits. */
        put: operations["HealLimitsPut"];
        post?: never;
        /** @description Permitted by admin:HealLimits. */
        delete: operations["HealLimitsRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:Prometheus. */
        get: operations["History"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/iam/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ExportIAM. */
        get: operations["IamExport"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/iam/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:ImportIAM. */
        post: operations["IamImport"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/idp/{kind}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ConfigUpdate. */
        get: operations["ProviderList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/idp/{kind}/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ConfigUpdate. */
        get: operations["ProviderGet"];
        /** @description Permitted by admin:ConfigUpdate. */
        put: operations["ProviderPut"];
        post?: never;
        /** @description Permitted by admin:ConfigUpdate. */
        delete: operations["ProviderRemove"];
        options?: never;
        head?: never;
        /** @description Permitted by admin:ConfigUpdate. */
        patch: operations["ProviderEdit"];
        trace?: never;
    };
    "/idp/{kind}/{name}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:ConfigUpdate. */
        post: operations["ProviderDisable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/idp/{kind}/{name}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:ConfigUpdate. */
        post: operations["ProviderEnable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/idp/{kind}/{name}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:TestSignIn. */
        post: operations["ProviderTest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/info": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ServerInfo. */
        get: operations["Info"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ListServiceAccounts. Nobody needs it for what is their own. */
        get: operations["KeyList"];
        put?: never;
        /** @description Permitted by admin:CreateServiceAccount. Nobody needs it for what is their own. */
        post: operations["KeyCreate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/keys/{access_key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ListServiceAccounts. Nobody needs it for what is their own. */
        get: operations["KeyGet"];
        put?: never;
        post?: never;
        /** @description Permitted by admin:RemoveServiceAccount. Nobody needs it for what is their own. */
        delete: operations["KeyRemove"];
        options?: never;
        head?: never;
        /** @description Permitted by admin:UpdateServiceAccount. Nobody needs it for what is their own. */
        patch: operations["KeyEdit"];
        trace?: never;
    };
    "/kms/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:KMSKeyStatus. */
        get: operations["KmsKeyList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/kms/keys/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:KMSKeyStatus. */
        get: operations["KmsKeyGet"];
        /** @description Permitted by admin:KMSCreateKey. */
        put: operations["KmsKeyCreate"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/kms/keys/{name}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:KMSCreateKey. */
        post: operations["KmsKeyRotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/kms/rewrap": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:KMSKeyStatus. */
        get: operations["RewrapStatus"];
        put?: never;
        /** @description Permitted by admin:KMSCreateKey. */
        post: operations["RewrapStart"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/kms/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:KMSKeyStatus. */
        get: operations["KmsStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/lifecycle/{bucket}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:DataUsageInfo. */
        get: operations["LifecycleStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/lifecycle/{bucket}/simulate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:SimulateLifecycle. */
        post: operations["LifecycleSimulate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/lifecycle/{bucket}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:DataUsageInfo. */
        post: operations["LifecycleTest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/login/openid": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Where a browser's user can sign in. Needs no signature. */
        get: operations["SignInChoices"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/login/openid/callback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Back from the provider. Needs no signature. */
        post: operations["SignInBack"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ConsoleLog. */
        get: operations["Logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/mappings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ListUserPolicies or admin:GetPolicy. */
        get: operations["MappingList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics-token": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:Prometheus. */
        get: operations["MetricsToken"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ServerInfo. */
        get: operations["Document"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/permissions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:GetPolicy. Nobody needs it for what is their own. */
        post: operations["Permissions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/placement/{object}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ObjectPlacement. */
        get: operations["Placement"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/placement/{object}/heal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:Heal. */
        post: operations["PlacementHeal"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ListUserPolicies or admin:GetPolicy. */
        get: operations["PolicyList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/policies/attach": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:AttachUserOrGroupPolicy or admin:UpdatePolicyAssociation. */
        post: operations["PolicyAttach"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/policies/detach": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:AttachUserOrGroupPolicy or admin:UpdatePolicyAssociation. */
        post: operations["PolicyDetach"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/policies/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:GetPolicy. */
        get: operations["PolicyGet"];
        /** @description Permitted by admin:CreatePolicy. */
        put: operations["PolicyPut"];
        post?: never;
        /** @description Permitted by admin:DeletePolicy. */
        delete: operations["PolicyRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/quotas/{bucket}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:GetBucketQuota. */
        get: operations["QuotaGet"];
        /** @description Permitted by admin:SetBucketQuota. */
        put: operations["QuotaPut"];
        post?: never;
        /** @description Permitted by admin:SetBucketQuota. */
        delete: operations["QuotaRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/service/restart": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:ServiceRestart. */
        post: operations["ServiceRestart"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/service/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:ServiceStop. */
        post: operations["ServiceStop"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ConfigUpdate. */
        get: operations["SettingList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/settings/{subsystem}/{target}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ConfigUpdate. */
        get: operations["SettingGet"];
        /** @description Permitted by admin:ConfigUpdate. */
        put: operations["SettingPut"];
        post?: never;
        /** @description Permitted by admin:ConfigUpdate. */
        delete: operations["SettingRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/simulate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:GetPolicy. */
        post: operations["Simulate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/top": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ServerTrace. */
        get: operations["Top"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/trace": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ServerTrace. */
        get: operations["Trace"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:DataUsageInfo. */
        get: operations["UsageList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/usage/{bucket}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:DataUsageInfo. */
        get: operations["UsageGet"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:ListUsers. */
        get: operations["UserList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/users/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:GetUser. Nobody needs it for what is their own. */
        get: operations["UserGet"];
        /** @description Permitted by admin:CreateUser. Nobody needs it for what is their own. */
        put: operations["UserPut"];
        post?: never;
        /** @description Permitted by admin:DeleteUser. */
        delete: operations["UserRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/users/{name}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:DisableUser. */
        post: operations["UserDisable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/users/{name}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:EnableUser. */
        post: operations["UserEnable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/users/{name}/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Permitted by admin:RevokeTemporaryAccounts. Nobody needs it for what is their own. */
        post: operations["UserRevoke"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/why/{request_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Permitted by admin:Audit. */
        get: operations["Why"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The result of attaching or detaching policies. */
        Associated: {
            /** @description The policies that were attached or detached now. */
            changed: string[];
            federated_group?: string | null;
            federated_user?: string | null;
            group?: string | null;
            user?: string | null;
        };
        /** @description Policies, and the user or group to attach them to or detach them from. */
        Association: {
            /**
             * @description A group of an external directory.
             * @default null
             */
            federated_group: string | null;
            /**
             * @description A user of an external directory: a distinguished name, or `openid/PROVIDER/SUBJECT`.
             * @default null
             */
            federated_user: string | null;
            /** @default null */
            group: string | null;
            /** @default [] */
            policies: string[];
            /** @default null */
            user: string | null;
        };
        /** @description A page of records, the last one written first. */
        AuditRecords: {
            /**
             * @description Whether the nodes that answer have nothing left. If there is a cursor nevertheless, it is for nodes that do not
             *     answer.
             */
            complete: boolean;
            /**
             * @description With it the next page is asked for; null if nothing is left. There may be a next page after one without records:
             *     a request does a bounded amount of work.
             */
            cursor?: string | null;
            /** @description The nodes that were searched. */
            nodes: components["schemas"]["SearchedNode"][];
            records: components["schemas"]["RequestRecord"][];
            /**
             * @description How far the search is: every record of a request that ended later is in this page or in an earlier one, of the nodes
             *     that answer. Null if nothing is left, or nothing was looked at.
             */
            searched_to?: string | null;
        };
        /**
         * @description The authority that signs the certificates of nodes. Authorities are named by the SHA-256 of their certificates, in
         *     hexadecimal.
         */
        AuthorityState: {
            /** @description The one that is being replaced; without a replacement the one that signs. */
            old: string;
            /**
             * @description `introducing`: a new one is trusted beside the old one; `renewing`: the new one signs, the old one is still trusted;
             *     null: it is not being replaced.
             */
            phase?: string | null;
            /** @description The one that signs. */
            signer: string;
            /** @description All that are trusted. */
            trusted: string[];
        };
        /** @description A node that is neither announced nor reached, as the answering node sees it. */
        AwayNode: {
            /**
             * Format: int64
             * @description Placement groups that have slots on it.
             */
            groups: number;
            /**
             * Format: int64
             * @description After how many seconds its slots move to drives of other nodes; null: never.
             */
            rebuild_after_s?: number | null;
            /**
             * Format: int64
             * @description Seconds since then.
             */
            seconds: number;
            /** @description Since when. */
            since: string;
            /** @description Groups of which slots cannot move now, by reason. */
            stuck: components["schemas"]["StuckGroups"][];
        };
        /** @description Quota and usage of a bucket. */
        BucketQuota: {
            bucket: string;
            /** Format: int64 */
            bytes?: number | null;
            /**
             * Format: int64
             * @description Bytes; null means no quota.
             */
            quota?: number | null;
            /** Format: int64 */
            versions?: number | null;
        };
        /** @description The usage of a bucket. */
        BucketUsage: {
            bucket: string;
            /**
             * Format: int64
             * @description Bytes of all versions, without parity.
             */
            bytes: number;
            /** @description False after a start, until the bucket has been counted. */
            complete: boolean;
            /**
             * Format: int64
             * @description When it was counted last, in milliseconds since 1970; later changes are included.
             */
            counted_ms?: number | null;
            /**
             * Format: int64
             * @description When the bucket was created, in milliseconds since 1970.
             */
            created_ms: number;
            /**
             * Format: int64
             * @description Bytes of the current versions.
             */
            current_bytes: number;
            /** Format: int64 */
            delete_markers: number;
            /**
             * Format: int64
             * @description Keys whose current version is not a delete marker.
             */
            objects: number;
            /** @description Objects by the size of their current version. */
            sizes: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Keys with a change whose outcome is unknown.
             */
            unsettled: number;
            /** @description Keys by their number of versions. */
            version_counts: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Versions, without delete markers.
             */
            versions: number;
        };
        /** @description Space of all drives, and the usable part of it. */
        Capacity: {
            /**
             * Format: int64
             * @description Bytes of the file systems.
             */
            raw: number;
            /**
             * Format: int64
             * @description Bytes free on them.
             */
            raw_free: number;
            /**
             * Format: int64
             * @description Bytes without parity.
             */
            usable: number;
            /**
             * Format: int64
             * @description Free bytes, without parity.
             */
            usable_free: number;
        };
        /** @description The cluster as the answering node sees it. A machine that is alone is one node. */
        Cluster: {
            authority?: null | components["schemas"]["AuthorityState"];
            /** @description `K+M`. */
            code: string;
            control_store: components["schemas"]["ControlStore"];
            /** @description Hexadecimal digits. */
            deployment: string;
            /**
             * Format: int32
             * @description The feature level in force; null if the machine is alone.
             */
            feature_level?: number | null;
            groups: components["schemas"]["GroupCounts"];
            /** @description Null if the machine is alone. */
            name?: string | null;
            /**
             * Format: int32
             * @description The newest feature level that any node can do; null if the machine is alone.
             */
            next_feature_level?: number | null;
            nodes: components["schemas"]["ClusterNode"][];
            /** @description `forming`, `founding` or `formed`; `alone` if the machine is alone. */
            state: string;
            tolerates: components["schemas"]["Tolerates"];
        };
        /** @description A node. Its addresses are null if the machine is alone. */
        ClusterNode: {
            /** @description `HOST:PORT` for messages between nodes. */
            address?: string | null;
            away?: null | components["schemas"]["AwayNode"];
            drives: components["schemas"]["NodeDrives"];
            /** @description The URL at which it serves S3. */
            endpoint?: string | null;
            feature_levels?: null | components["schemas"]["FeatureLevels"];
            /** @description The name of its machine. */
            host?: string | null;
            /** Format: int32 */
            number: number;
            /** @description Why it does not answer. */
            problem?: string | null;
            /** @description Whether it is announced in the control store. A node that has just crashed still is, for some seconds. */
            running: boolean;
            /** @description Whether it is the node that answers. */
            this: boolean;
            /**
             * Format: int64
             * @description Since when it runs; left out if it does not answer, or the machine is alone.
             */
            uptime_s?: number | null;
            /** @description The version that it runs, or ran last. */
            version: string;
        };
        /** @description The control store. */
        Control: {
            /** Format: int64 */
            current: number;
            /** Format: int64 */
            members: number;
            /** Format: int64 */
            revision: number;
            writable: boolean;
        };
        /** @description The list of members of etcd. The nodes add and remove members by themselves until they are those. */
        ControlMembers: {
            before: string[];
            /** @description False for a dry run. */
            changed: boolean;
            members: string[];
        };
        /** @description Changes which nodes run a member of etcd. */
        ControlMembersOrder: {
            /** @description Only find out whether it can be changed. */
            dry_run?: boolean;
            /** @description One, three or five: each `HOST` or `HOST:CLIENT-PORT:PEER-PORT`. */
            members: string[];
        };
        /** @description The control store. */
        ControlStore: {
            /**
             * Format: int64
             * @description How long ago the answering node was last in accord with it.
             */
            age_ms: number;
            /**
             * Format: int64
             * @description How many of these have the present content.
             */
            current: number;
            /** @description The members of etcd that nodes run themselves; null if they do not. */
            etcd?: components["schemas"]["EtcdMember"][] | null;
            /** @description `etcd`, or `embedded`: on the drives of a machine that is alone. */
            kind: string;
            /**
             * Format: int64
             * @description Servers of etcd, or drives with a copy.
             */
            members: number;
            /** Format: int64 */
            revision: number;
            /** @description Why it cannot be used now. */
            trouble?: string | null;
            writable: boolean;
        };
        /** @description Detected damage. */
        Damage: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            at_ms: number;
            /** @description Name of the bucket, or its id if it was deleted or is internal. */
            bucket: string;
            /** @description Id of the drive, and its path. */
            drive: string;
            key: string;
            /**
             * Format: int32
             * @description The node that found it; left out if the machine is alone.
             */
            node?: number | null;
            path: string;
            repaired: boolean;
            /** @description The damaged part: the record, or which shard. */
            what: string;
        };
        /** @description The event of a dead letter. */
        DeadEvent: {
            bucket: string;
            key: string;
            name: string;
            /** Format: int64 */
            position: number;
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            time_ms: number;
            version?: string | null;
        };
        /** @description An event that was not delivered. */
        DeadLetter: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            at_ms: number;
            event?: null | components["schemas"]["DeadEvent"];
            id: string;
            /**
             * Format: int64
             * @description Number of lost events.
             */
            lost: number;
            target: string;
            why: string;
        };
        /** @description Number of affected dead letters. */
        DeadLetterCount: {
            count: number;
        };
        /** @description The oldest dead letters. */
        DeadLetterList: {
            letters: components["schemas"]["DeadLetter"][];
        };
        /** @description All drives. */
        DriveList: {
            drives: components["schemas"]["DriveState"][];
        };
        /** @description An action on a drive. */
        DriveOrder: {
            /** @description Read and verify all data too. */
            deep?: boolean;
            /** @description A path, an id, or the beginning of an id. */
            drive?: string;
            /**
             * Format: int32
             * @description The node of a cluster that has the drive; needed if several have a folder of that name.
             */
            node?: number | null;
        };
        /** @description A drive. Unknown fields of an unavailable drive are left out. */
        DriveState: {
            /** Format: int64 */
            capacity?: number | null;
            /**
             * Format: double
             * @description Mean duration of a group commit.
             */
            commit_ms?: number | null;
            /** Format: int64 */
            free?: number | null;
            /** @description Hexadecimal digits. */
            id: string;
            /**
             * Format: int32
             * @description The node that has it; left out if the machine is alone.
             */
            node?: number | null;
            path: string;
            problem?: string | null;
            /** Format: int64 */
            read_errors?: number | null;
            /** Format: int64 */
            reads?: number | null;
            rebuild?: null | components["schemas"]["Rebuild"];
            /** @description `online`, `joining`, `read-only`, `fenced`, `offline` or `held`; `unknown` if its node does not answer. */
            state: string;
            /** Format: int64 */
            syncs?: number | null;
            /** Format: int64 */
            used?: number | null;
            /** Format: int64 */
            writes?: number | null;
        };
        /** @description A named key. */
        EncryptionKey: {
            /**
             * Format: int64
             * @description Milliseconds since 1970; 0 if the key server does not report it.
             */
            created_ms: number;
            /** @description Whether this is the default key. */
            default: boolean;
            name: string;
            /**
             * Format: int32
             * @description The newest version; 0 if the key server does not report it.
             */
            version: number;
        };
        /** @description The named keys. */
        EncryptionKeyList: {
            keys: components["schemas"]["EncryptionKey"][];
        };
        /** @description The state of the encryption keys. */
        EncryptionStatus: {
            /** @description The key that encrypts when a request names none. */
            default_key: string;
            /** @description `builtin`, `vault` or `kes`; empty if no keys are configured. */
            driver: string;
            /** @description Addresses of the key servers, separated by commas; empty for the built-in driver. */
            endpoint: string;
            /** @description Why the default key does not work. */
            problem?: string | null;
            /** @description Whether the default key has just sealed and opened a test value. */
            works: boolean;
        };
        /** @description How to end the process. */
        EndOrder: {
            /**
             * @description Only says whether it would.
             * @default false
             */
            dry_run: boolean;
            /**
             * Format: int32
             * @description The node of a cluster that is meant; if left out, the one that answers.
             * @default null
             */
            node: number | null;
        };
        /** @description The result of a request to end the process. */
        Ending: {
            /** @description False for a dry run. */
            ending: boolean;
            /** @description Whether the same program starts again. */
            restart: boolean;
        };
        /** @description Values of a target that the server's environment sets. */
        EnvironmentSetting: {
            subsystem: string;
            /** @description `_` for a subsystem with one target. */
            target: string;
            /** @description Values; `*redacted*` replaces a secret. */
            values: {
                [key: string]: string;
            };
        };
        /** @description A member of etcd that a node runs. */
        EtcdMember: {
            /** @description `HOST` or `HOST:CLIENT-PORT:PEER-PORT`. */
            address: string;
            /** @description Whether it answers and knows a leader. */
            healthy: boolean;
            /** @description Whether it leads. */
            leader: boolean;
            /** @description Whether it does not vote yet, because it does not have everything. */
            learner: boolean;
            /**
             * Format: int64
             * @description Size of its file, in bytes; null if it does not answer.
             */
            size?: number | null;
            /** @description The release of etcd; null if it does not answer. */
            version?: string | null;
        };
        /** @description An event target. */
        EventTarget: {
            arn: string;
            /** Format: int64 */
            dead: number;
            /** Format: int64 */
            failed: number;
            /** @description `ID:TYPE`. */
            id: string;
            /**
             * Format: int64
             * @description Number of waiting changes of all buckets.
             */
            lag: number;
            /** Format: int64 */
            lost: number;
            /** @description Whether the last attempt to send succeeded; true if nothing was sent yet. */
            online: boolean;
            problem?: string | null;
            /**
             * Format: int64
             * @description Counts since the start.
             */
            sent: number;
        };
        /** @description All event targets. */
        EventTargetList: {
            targets: components["schemas"]["EventTarget"][];
        };
        /** @description What became of a test event. */
        EventTest: {
            /** @description Whether the target has acknowledged it. */
            accepted: boolean;
            /** @description Why not. */
            problem?: string | null;
            /** @description `ID:TYPE`. */
            target: string;
            /** Format: int64 */
            took_ms: number;
        };
        /** @description A group. */
        ExportedGroup: {
            /** @description Whether it is enabled. */
            enabled: boolean;
            /** @description Names of users. */
            members: string[];
        };
        /** @description An access key. */
        ExportedKey: {
            /** @description Its description. */
            description?: string;
            /** @description Whether it is enabled. */
            enabled: boolean;
            /**
             * Format: int64
             * @description Its expiry, in milliseconds since 1970.
             */
            expires_ms?: number | null;
            /** @description Its display name. */
            name?: string;
            policy?: null | components["schemas"]["PolicyOrText"];
            /** @description Its secret key. */
            secret: string;
            /** @description The user that it belongs to. */
            user: string;
        };
        /** @description A user. */
        ExportedUser: {
            /** @description Whether it is enabled. */
            enabled: boolean;
            /** @description Its secret key. */
            secret: string;
        };
        /** @description The feature levels that a release can do. */
        FeatureLevels: {
            /** Format: int32 */
            newest: number;
            /** Format: int32 */
            oldest: number;
        };
        /** @description How the use of the capacity grows. */
        Forecast: {
            /**
             * Format: int64
             * @description How much more is used each day, in bytes; negative: less.
             */
            bytes_per_day: number;
            /**
             * Format: double
             * @description How many days this is judged by.
             */
            days: number;
            /**
             * Format: int64
             * @description When nothing is free any more if it goes on so, in milliseconds since 1970; null: not within ten years.
             */
            full_ms?: number | null;
        };
        /** @description A group. */
        Group: {
            /** Format: int64 */
            changed_ms: number;
            enabled: boolean;
            members: string[];
            name: string;
            policies: string[];
        };
        /** @description Numbers of placement groups. */
        GroupCounts: {
            /**
             * Format: int64
             * @description Those in which every slot has a drive that has joined, by the map.
             */
            complete: number;
            /**
             * Format: int64
             * @description Those that a drive left which has not let go of them yet: its node was away while its slot moved.
             */
            left: number;
            /**
             * Format: int64
             * @description Those that can be read now.
             */
            readable: number;
            /** Format: int64 */
            total: number;
            /**
             * Format: int64
             * @description Those that accept writes now.
             */
            writable: number;
        };
        /** @description All groups. */
        GroupList: {
            groups: components["schemas"]["Group"][];
        };
        /** @description Healing since the start. */
        Heal: {
            last_full_scrub?: null | components["schemas"]["Scrub"];
            last_scrub?: null | components["schemas"]["Scrub"];
            /** Format: int64 */
            looked: number;
            /** Format: int64 */
            lost: number;
            /** Format: int64 */
            queued: number;
            rebuilds: components["schemas"]["Rebuild"][];
            /** @description Completed rebuilds since the start, the latest last; at most 32. */
            rebuilt: components["schemas"]["Rebuild"][];
            /** Format: int64 */
            records: number;
            /** Format: int64 */
            shards: number;
        };
        /** @description The limits of healing, rebuild and scrub on a node. */
        HealLimits: {
            /**
             * Format: int32
             * @description Percent of the time that a task of this work takes while clients' requests are in flight.
             */
            busy_share: number;
            /**
             * Format: int64
             * @description Bytes per second that it writes at most for healing and rebuild; 0: no limit.
             */
            max_rate: number;
            /**
             * Format: int64
             * @description Bytes per second that it reads at most for scrubs; 0: no limit.
             */
            scrub_max_rate: number;
        };
        /** @description Changed limits. What is left out stays. */
        HealLimitsOrder: {
            /**
             * Format: int32
             * @description Percent of the time that a task of this work takes while clients' requests are in flight.
             */
            busy_share?: number | null;
            /**
             * Format: int64
             * @description Bytes per second that a node writes at most for healing and rebuild: 65536 or more; 0: no limit.
             */
            max_rate?: number | null;
            /**
             * Format: int64
             * @description Bytes per second that a node reads at most for scrubs: 65536 or more; 0: no limit.
             */
            scrub_max_rate?: number | null;
        };
        /** @description A started scrub. */
        HealStarted: {
            deep: boolean;
            started: boolean;
        };
        /** @description Healing, and whether a scrub runs. */
        HealStatus: components["schemas"]["Heal"] & {
            /** @description Damage found since the start, the latest last; at most 256. */
            damages: components["schemas"]["Damage"][];
            /** @description In force on the node that answers. Another node may run a release that does not say. */
            limits?: components["schemas"]["HealLimits"];
            running: boolean;
        };
        /** @description A node, and its part in the history. */
        HistoryNode: {
            /** Format: int32 */
            node: number;
            /** @description Why its measurements are missing. */
            problem?: string | null;
            /**
             * Format: int64
             * @description Since when it has measurements, in milliseconds since 1970.
             */
            since_ms?: number | null;
        };
        /** @description All identities. */
        IdentityExport: {
            /**
             * @description Names of policies attached to groups of external directories.
             * @default {}
             */
            federated_group_policies: {
                [key: string]: string[];
            };
            /**
             * @description Names of policies attached to users of external directories.
             * @default {}
             */
            federated_user_policies: {
                [key: string]: string[];
            };
            /**
             * @description Names of policies attached to groups.
             * @default {}
             */
            group_policies: {
                [key: string]: string[];
            };
            /**
             * @description Groups by name.
             * @default {}
             */
            groups: {
                [key: string]: components["schemas"]["ExportedGroup"];
            };
            /**
             * @description Access keys.
             * @default {}
             */
            keys: {
                [key: string]: components["schemas"]["ExportedKey"];
            };
            /**
             * @description Policies by name, without built-in ones.
             * @default {}
             */
            policies: {
                [key: string]: components["schemas"]["PolicyDocument"];
            };
            /**
             * @description Names of policies attached to users.
             * @default {}
             */
            user_policies: {
                [key: string]: string[];
            };
            /**
             * @description Users by name.
             * @default {}
             */
            users: {
                [key: string]: components["schemas"]["ExportedUser"];
            };
        };
        /** @description The result of an import. */
        Imported: {
            records: components["schemas"]["ImportedRecord"][];
        };
        /** @description The result of one record of an import. */
        ImportedRecord: {
            /**
             * @description `policy`, `user`, `group`, `key`, `user_policies`, `group_policies`, `federated_user_policies` or
             *     `federated_group_policies`.
             */
            kind: string;
            name: string;
            /** @description `added`, `skipped` or `failed`. */
            outcome: string;
            /** @description The policies to attach. */
            policies: string[];
            /** @description Why it was skipped or failed; empty if it was added. */
            why: string;
        };
        /** @description The overview of a deployment. In a cluster, space, memory, drives and healing are those of all nodes that answer. */
        Info: {
            /** Format: int64 */
            buckets: number;
            capacity: components["schemas"]["Capacity"];
            /** @description `K+M`. */
            code: string;
            control: components["schemas"]["Control"];
            /** Format: int64 */
            data_shards: number;
            /** @description Hexadecimal digits. */
            deployment: string;
            drives: components["schemas"]["DriveState"][];
            /** Format: int64 */
            epoch: number;
            groups: components["schemas"]["PlacementGroup"][];
            heal: components["schemas"]["Heal"];
            memory: components["schemas"]["Memory"];
            /** @description The nodes of the cluster; left out if the machine is alone. */
            nodes?: components["schemas"]["NodeInfo"][] | null;
            /** Format: int64 */
            parity_shards: number;
            /** @description Whether every placement group can serve reads. */
            readable: boolean;
            /**
             * Format: int64
             * @description Drives of a placement group that may be missing for reads.
             */
            reads_tolerate: number;
            /**
             * Format: int64
             * @description Of the process that answers.
             */
            uptime_s: number;
            /** @description The usage of all buckets. */
            usage: components["schemas"]["UsageTotal"];
            /** @description Version of the program. */
            version: string;
            /** @description Whether every placement group can serve writes. */
            writable: boolean;
            /**
             * Format: int64
             * @description Drives of a placement group that may be missing for writes.
             */
            writes_tolerate: number;
        };
        /** @description An access key. */
        Key: {
            access_key: string;
            description: string;
            enabled: boolean;
            /** Format: int64 */
            expires_ms?: number | null;
            name: string;
            policy?: null | components["schemas"]["PolicyDocument"];
            /** @description The secret; only in the answer to its creation. */
            secret?: string | null;
            /** Format: int64 */
            used_ms?: number | null;
            /** @description The user that it belongs to. */
            user: string;
        };
        /** @description Access keys. */
        KeyList: {
            keys: components["schemas"]["Key"][];
        };
        /** @description A new access key. Values that are left out are generated, or do not restrict the key. */
        KeyOrder: {
            /** @default null */
            access_key: string | null;
            /** @default  */
            description: string;
            /**
             * Format: int64
             * @description Its expiry, in milliseconds since 1970.
             * @default null
             */
            expires_ms: number | null;
            /** @default  */
            name: string;
            /** @default null */
            policy: null | components["schemas"]["PolicyOrText"];
            /** @default null */
            secret: string | null;
            /**
             * @description The user that it belongs to; by default the caller.
             * @default null
             */
            user: string | null;
        };
        /**
         * @description A change of an access key. Values that are left out stay; an empty policy and an expiry of 0 remove the
         *     value.
         */
        KeyPatch: {
            /** @default null */
            description: string | null;
            /** @default null */
            enabled: boolean | null;
            /**
             * Format: int64
             * @default null
             */
            expires_ms: number | null;
            /** @default null */
            name: string | null;
            /** @default null */
            policy: null | components["schemas"]["PolicyOrText"];
            /** @default null */
            secret: string | null;
        };
        /** @description A removed access key. */
        KeyRemoved: {
            access_key: string;
            removed: boolean;
        };
        /** @description What a rule will do on a day. */
        LifecycleDay: {
            /** Format: int64 */
            abort_uploads: number;
            /**
             * Format: int64
             * @description Bytes of all these versions.
             */
            bytes: number;
            /** @description `2030-01-31`, of UTC. */
            date: string;
            /**
             * Format: int64
             * @description Current versions that expire.
             */
            expire: number;
            /** Format: int64 */
            remove_markers: number;
            /** Format: int64 */
            remove_versions: number;
        };
        /** @description A version that becomes due. */
        LifecycleExample: {
            /**
             * @description `expire`: the current version expires; `remove`: an older one is removed; `remove-marker`: a delete marker that hides
             *     nothing is removed.
             */
            action: string;
            at: string;
            key: string;
            /** @description Whether it is locked now. */
            locked: boolean;
            /** @description The id of the rule. */
            rule: string;
            /** Format: int64 */
            size: number;
            /** @description `null` is the version that was made without versioning. */
            version_id: string;
        };
        /** @description What lifecycle rules will do until a time, if nothing in the bucket changes. */
        LifecycleForecast: {
            /** @description Where to continue, if there is more to examine. */
            after?: string | null;
            bucket: string;
            /** @description Versions that become due, the earliest first; at most as many as were asked for, of those that were examined first. */
            examples: components["schemas"]["LifecycleExample"][];
            /** @description The time at which it was made. What is due already is of this day. */
            from: string;
            /**
             * Format: int64
             * @description Versions that become due and are locked now: they stay for as long as they are locked.
             */
            locked: number;
            /**
             * Format: int64
             * @description Keys and uploads examined.
             */
            looked_at: number;
            rules: components["schemas"]["LifecycleRuleForecast"][];
            /** @description Until when rules were evaluated. */
            until: string;
        };
        /** @description What one rule would do; a version that several rules match counts for the earliest. */
        LifecycleHits: {
            /** Format: int64 */
            abort_uploads: number;
            /**
             * Format: int64
             * @description Bytes of all these versions.
             */
            bytes: number;
            enabled: boolean;
            /**
             * Format: int64
             * @description Current versions that would expire.
             */
            expire: number;
            id: string;
            /** Format: int64 */
            remove_markers: number;
            /** Format: int64 */
            remove_versions: number;
        };
        /** @description What one rule will do; a version that several rules match counts for the earliest. */
        LifecycleRuleForecast: {
            /** @description The days on which it does something, in order. */
            days: components["schemas"]["LifecycleDay"][];
            enabled: boolean;
            id: string;
        };
        /** @description The request of a forecast. */
        LifecycleSimulateOrder: {
            /**
             * @description Continues where the last answer ended.
             * @default null
             */
            after: string | null;
            /**
             * @description How many versions to name, at most 1000; by default 100.
             * @default null
             */
            examples: number | null;
            /**
             * @description The rules to evaluate, as the XML that `PutBucketLifecycleConfiguration` takes; by default those of the bucket.
             * @default null
             */
            rules: string | null;
            /**
             * @description Until when, such as `2030-01-31T00:00:00Z`; by default 30 days from now.
             * @default null
             */
            until: string | null;
        };
        /** @description The last pass of lifecycle rules through a bucket. */
        LifecycleStatus: {
            /** Format: int64 */
            aborted_uploads: number;
            /** @description When the pass began; null if there was none yet. */
            began?: string | null;
            bucket: string;
            /** @description When it ended; null if it runs. */
            ended?: string | null;
            /**
             * Format: int64
             * @description Current versions that expired.
             */
            expired: number;
            /**
             * Format: int64
             * @description Keys postponed to a later pass.
             */
            failed: number;
            /**
             * Format: int64
             * @description Versions kept because they are locked.
             */
            locked: number;
            /**
             * Format: int64
             * @description Keys and uploads examined.
             */
            looked_at: number;
            /** Format: int64 */
            removed_markers: number;
            /** Format: int64 */
            removed_versions: number;
            /**
             * Format: int64
             * @description Number of rules.
             */
            rules: number;
            running: boolean;
        };
        /** @description The result of a dry run of lifecycle rules. */
        LifecycleTest: {
            /** @description Where to continue, if there is more to count. */
            after?: string | null;
            /** @description The time at which the rules were evaluated. */
            at: string;
            bucket: string;
            /**
             * Format: int64
             * @description Versions that are due and locked.
             */
            locked: number;
            /** Format: int64 */
            looked_at: number;
            rules: components["schemas"]["LifecycleHits"][];
        };
        /** @description The request of a dry run. */
        LifecycleTestOrder: {
            /**
             * @description Continues where the last answer ended.
             * @default null
             */
            after: string | null;
            /**
             * @description The time to evaluate the rules at, such as `2030-01-31T00:00:00Z`; by default now.
             * @default null
             */
            at: string | null;
        };
        /** @description A line of the server's log. */
        LogLine: {
            /** @description `error`, `warn` or `info`. */
            level: string;
            message: string;
            /**
             * Format: int32
             * @description The node that logged it; left out if the machine is alone.
             */
            node?: number | null;
            /** @description The module that logged it. */
            target: string;
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            time_ms: number;
        };
        /** @description Policies of a federated user or group. */
        Mapping: {
            /** Format: int64 */
            changed_ms: number;
            /** @description Whether the name is that of a group. */
            group: boolean;
            name: string;
            policies: string[];
        };
        /** @description Policies of federated users and groups. */
        MappingList: {
            mappings: components["schemas"]["Mapping"][];
        };
        /** @description Whether a node can be stopped now. */
        MayStop: {
            /** @description Whether every placement group still takes reads and writes without it. */
            may_stop: boolean;
            /**
             * Format: int32
             * @description The node; 0 if the machine is alone.
             */
            node: number;
            /** @description Why it cannot be stopped; empty if it can. */
            reasons: string[];
        };
        /** @description A change of the members of a group. */
        Members: {
            /** @default [] */
            add: string[];
            /** @default [] */
            remove: string[];
        };
        /** @description Memory for buffers. */
        Memory: {
            /** Format: int64 */
            buffers: number;
            /** Format: int64 */
            ceiling: number;
            /** Format: int64 */
            idle: number;
        };
        /**
         * @description What was measured, of all nodes together, in steps of equal length. Each list has one value for each step; null: nothing
         *     was measured. Rates are per second.
         */
        MetricsHistory: {
            /** @description Bytes of the bodies of requests. */
            bytes_in: (number | null)[];
            /** @description Bytes of the bodies of answers. */
            bytes_out: (number | null)[];
            /** @description Bytes that the drives can hold, without parity. */
            capacity_bytes: (number | null)[];
            /** @description Answers with a status of 400 to 499. */
            client_errors: (number | null)[];
            deletes: (number | null)[];
            forecast?: null | components["schemas"]["Forecast"];
            /** @description Bytes of these that are free. */
            free_bytes: (number | null)[];
            /**
             * Format: int64
             * @description The beginning of the first step, in milliseconds since 1970.
             */
            from_ms: number;
            lists: (number | null)[];
            /** @description In how many milliseconds half of the requests had the first byte of their answers; null: there were none. */
            median_ms: (number | null)[];
            /** @description The nodes of a cluster; null: the server is alone. */
            nodes?: components["schemas"]["HistoryNode"][] | null;
            /** @description Other requests. */
            others: (number | null)[];
            /** @description In how many milliseconds 99 of 100 requests had the first byte of their answers; null: there were none. */
            p99_ms: (number | null)[];
            /** @description Requests that read. */
            reads: (number | null)[];
            /** @description Answers with a status of 500 and above. */
            server_errors: (number | null)[];
            /**
             * Format: int64
             * @description The length of a step, in seconds.
             */
            step_s: number;
            /** @description Requests that write. */
            writes: (number | null)[];
        };
        /** @description The bearer token for metrics. */
        MetricsToken: {
            token: string;
        };
        /** @description A policy, and to whom it is attached. */
        NamedPolicy: {
            built_in: boolean;
            /** Format: int64 */
            changed_ms: number;
            document: components["schemas"]["PolicyDocument"];
            groups: string[];
            /** Format: int64 */
            made_ms: number;
            name: string;
            users: string[];
        };
        /** @description Numbers of drives of a node. */
        NodeDrives: {
            /**
             * Format: int64
             * @description Drives of the map, without those that are lost for good.
             */
            in_map: number;
            /**
             * Format: int64
             * @description Drives in service; null for other nodes than the one that answers.
             */
            serving_here?: number | null;
        };
        /** @description A node of a cluster. */
        NodeInfo: {
            /** @description `HOST:PORT` for messages between nodes. */
            address: string;
            /** @description The URL at which it serves S3. */
            endpoint: string;
            /** Format: int32 */
            node: number;
            /** @description Why it does not answer. */
            problem?: string | null;
            /** @description Whether it runs, as far as the answering node knows. */
            running: boolean;
            /**
             * Format: int64
             * @description When its process started, in milliseconds since 1970. Null if it does not answer.
             */
            started_ms?: number | null;
            /** @description Whether it is the node that answers. */
            this: boolean;
            /**
             * Format: int64
             * @description Null if it does not answer.
             */
            uptime_s?: number | null;
            /** @description The version that it runs, or ran last. */
            version: string;
        };
        /** @description A node that was removed, or, after a dry run, can be. */
        NodeRemoved: {
            /** @description `HOST:PORT` for messages between nodes. */
            address: string;
            /** @description The name of its machine. */
            host: string;
            /** Format: int32 */
            node: number;
            /** @description False for a dry run. */
            removed: boolean;
        };
        /** @description The requests in progress at a node. */
        NodeRequests: {
            /** Format: int64 */
            inflight?: number | null;
            /** Format: int32 */
            node: number;
            /** @description Why it does not answer. */
            problem?: string | null;
            /**
             * Format: int64
             * @description Null if it does not answer.
             */
            uptime_s?: number | null;
        };
        /** @description What was made again of a key. */
        ObjectHealed: {
            /**
             * Format: int64
             * @description Bytes of these shards.
             */
            bytes: number;
            /**
             * Format: int32
             * @description Parts of which too few shards are left to be read.
             */
            lost: number;
            /**
             * Format: int32
             * @description Shards that are still missing at drives in service.
             */
            missing: number;
            /**
             * Format: int32
             * @description Records that were brought up to date.
             */
            records: number;
            /** Format: int32 */
            shards: number;
        };
        /** @description Where the shards of a version are. */
        ObjectPlacement: {
            /** @description When that was, RFC 3339. */
            at: string;
            bucket: string;
            encrypted: boolean;
            /**
             * Format: int64
             * @description The number of the placement group.
             */
            group: number;
            key: string;
            /**
             * Format: int32
             * @description The number of the next part, if there are more.
             */
            next_part?: number | null;
            /** Format: int64 */
            part_count: number;
            parts: components["schemas"]["PartPlacement"][];
            /** Format: int64 */
            size: number;
            /**
             * Format: int64
             * @description How many more shards may be lost before a part of this answer cannot be read; negative: one cannot be read now. Null
             *     if there are no bytes.
             */
            spare?: number | null;
            /**
             * @description Whether every byte was read and compared with its hash. Otherwise the drives only looked whether they have the
             *     shards.
             */
            verified: boolean;
            /** @description `null` is the version that was made without versioning. */
            version_id: string;
        };
        /** @description An OpenAPI 3.1 document. */
        OpenApi: {
            components: Record<string, unknown>;
            openapi: string;
            paths: Record<string, unknown>;
        };
        /** @description Totals of an operation since the start. */
        OperationTotals: {
            /** Format: int64 */
            bytes_in: number;
            /** Format: int64 */
            bytes_out: number;
            /** Format: int64 */
            calls: number;
            /**
             * Format: int64
             * @description Answers with a status of 4xx.
             */
            client_errors: number;
            /**
             * Format: int64
             * @description Time until the head of the answer.
             */
            mean_micros: number;
            operation: string;
            /**
             * Format: int64
             * @description Answers with a status of 5xx.
             */
            server_errors: number;
        };
        /** @description Where the shards of a part are: of the body of a simple upload, or a part of a multipart upload. */
        PartPlacement: {
            /**
             * Format: int32
             * @description As many shards are needed to read the part.
             */
            data_shards: number;
            /** @description Whether the shards are in the journals of the drives, as those of small bodies are. */
            inline: boolean;
            /** Format: int32 */
            number: number;
            /** Format: int32 */
            parity_shards: number;
            /**
             * Format: int64
             * @description Bytes of each shard.
             */
            shard_size: number;
            shards: components["schemas"]["ShardPlacement"][];
            /** Format: int64 */
            size: number;
        };
        /** @description Whether the caller may do one thing. */
        Permission: {
            action: string;
            allowed: boolean;
            resource: string;
        };
        /** @description One request that the caller may want to make. */
        PermissionCheck: {
            /** @description For instance `s3:PutObject` or `admin:ListUsers`. */
            action: string;
            /** @description A bucket, or a bucket, a slash and a key; empty for what is about neither. */
            resource?: string;
        };
        /** @description What the caller wants to know about itself. */
        PermissionOrder: {
            /** @description At most 256. */
            checks: components["schemas"]["PermissionCheck"][];
        };
        /** @description What the caller may do. */
        Permissions: {
            /** @description As they were asked, in the same order. */
            checks: components["schemas"]["Permission"][];
        };
        /** @description One placement group. */
        PlacementGroup: {
            /** Format: int64 */
            group: number;
            /** Format: int64 */
            joining: number;
            readable: boolean;
            /** Format: int64 */
            slots: number;
            /**
             * Format: int64
             * @description How many drives may still fail.
             */
            spare: number;
            /** Format: int64 */
            voters: number;
            writable: boolean;
        };
        /** @description A policy document: see docs/policy.md. */
        PolicyDocument: Record<string, unknown>;
        /** @description All policies. */
        PolicyList: {
            policies: components["schemas"]["NamedPolicy"][];
        };
        /** @description A policy document, or its text; an empty text is none. */
        PolicyOrText: Record<string, unknown> | string;
        /** @description An error. */
        Problem: {
            /** @description The error code, for programs. */
            code: string;
            /** @description What happened, and what to do about it. */
            error: string;
        };
        /** @description An identity provider. */
        Provider: {
            /** @description Whether it is in use. */
            enabled: boolean;
            /** @description Names of values that the server's environment sets and that cannot be changed here. */
            environment: string[];
            /** @description Values derived from the settings, for instance `role_arn`. */
            facts: {
                [key: string]: string;
            };
            /** @description `openid`, `ldap` or `tls`. */
            kind: string;
            /** @description `_` for the provider without a name. */
            name: string;
            /** @description Why it is not in use although it is enabled. */
            problem?: string | null;
            /** @description Values; `*redacted*` replaces a secret. */
            values: {
                [key: string]: string;
            };
        };
        /** @description All identity providers of a kind. */
        ProviderList: {
            providers: components["schemas"]["Provider"][];
        };
        /** @description Values of an identity provider. An empty value is removed. */
        ProviderOrder: {
            /** @default {} */
            values: {
                [key: string]: string;
            };
        };
        /** @description A removed identity provider. */
        ProviderRemoved: Record<string, unknown>;
        /** @description The quota of a bucket. */
        QuotaOrder: {
            /**
             * Format: int64
             * @description Bytes.
             */
            quota: number;
        };
        /** @description The progress of rebuilding a drive. */
        Rebuild: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            began_ms: number;
            /** Format: int64 */
            bytes: number;
            /** Format: int64 */
            copied: number;
            /**
             * Format: int64
             * @description Live bytes on the drive.
             */
            done_bytes: number;
            drive: string;
            /** Format: int64 */
            ended_ms?: number | null;
            /**
             * Format: int64
             * @description Estimated seconds to the end, by bytes.
             */
            eta_s?: number | null;
            /** Format: int64 */
            looked: number;
            /** Format: int64 */
            missing: number;
            /**
             * Format: int32
             * @description The node that fills it; left out if the machine is alone.
             */
            node?: number | null;
            /** @description `waiting`, `records`, `shards` or `done`. */
            phase: string;
            /**
             * Format: double
             * @description Registers per second.
             */
            rate: number;
            /** Format: int64 */
            registers: number;
            /** Format: int64 */
            shards: number;
            /**
             * Format: int64
             * @description Expected live bytes after the rebuild, estimated from other drives.
             */
            total_bytes: number;
            why?: string | null;
        };
        /** @description How to recover from distrusted drives. */
        RecoverOrder: {
            /**
             * @description Only finds out what would be uncertain.
             * @default false
             */
            dry_run: boolean;
        };
        /** @description The last recovery from distrusted drives. */
        Recovery: {
            /**
             * Format: int64
             * @description Copies made on drives with older records.
             */
            copied: number;
            /** @description Drives that have their votes back. */
            drives: string[];
            dry_run: boolean;
            named: components["schemas"]["UncertainKey"][];
            /**
             * Format: int64
             * @description Records processed.
             */
            registers: number;
            /** @description `running`, `done` or `failed`; empty if there was none since the start. */
            state: string;
            /**
             * Format: int64
             * @description Records that may not be the newest; `named` may be shorter.
             */
            uncertain: number;
            why?: string | null;
        };
        /** @description Removes a node that is gone for good. */
        RemoveOrder: {
            /** @description Only find out whether it can be removed. */
            dry_run?: boolean;
            /** Format: int32 */
            node: number;
        };
        /** @description A removed user, group or policy. */
        Removed: {
            name: string;
            removed: boolean;
        };
        /** @description The audit record of a request. Empty fields are left out; see docs/audit.md. */
        RequestRecord: {
            /** @description `s3`, `sts` or `admin`. */
            api: string;
            /** Format: int64 */
            bytes_in: number;
            /** Format: int64 */
            bytes_out: number;
            ip: string;
            method: string;
            /** Format: int64 */
            micros: number;
            /**
             * Format: int32
             * @description The node that answered the request; left out if the machine is alone.
             */
            node?: number | null;
            operation: string;
            request_id: string;
            /** Format: int32 */
            status: number;
            /** @description `2026-11-21T18:43:11.123Z`. */
            time: string;
            tls: boolean;
        } & {
            [key: string]: unknown;
        };
        /** @description A pass that seals envelopes again under another key or version. */
        Rewrap: {
            bucket: string;
            /**
             * Format: int64
             * @description Versions whose envelope could not be sealed again.
             */
            failed: number;
            last_failure?: string | null;
            /**
             * Format: int64
             * @description Versions examined, and those whose envelope was sealed again.
             */
            looked: number;
            prefix: string;
            /** @description Why the pass ended early. */
            problem?: string | null;
            running: boolean;
            /** Format: int64 */
            sealed: number;
        };
        /** @description The envelopes to seal again. */
        RewrapOrder: {
            /** @description The bucket. */
            bucket: string;
            /** @description The named key to seal under; by default the newest version of each envelope's own key. */
            key?: string | null;
            /** @description Only keys with this prefix. */
            prefix?: string;
        };
        /** @description How far the replacement of the authority is. */
        Rotation: {
            /** @description The state after this request. */
            authority: components["schemas"]["AuthorityState"];
            /** @description Nodes that are away: nobody waits for them. */
            away: number[];
            /** @description Whether the named authority is no longer trusted. */
            done: boolean;
            /** @description Why the next step was not made: what the nodes that run have yet to do. */
            waits: string[];
        };
        /** @description Replaces the authority, step by step. The same request is repeated until the answer is done. */
        RotationOrder: {
            /** @description The authority to replace: `old` of the state. If it is not trusted any more, nothing is left to do. */
            replace: string;
        };
        /** @description Requests in progress in a bucket. */
        RunningRequests: {
            bucket: string;
            /** Format: int64 */
            count: number;
            operation: string;
        };
        /** @description The last scrub. */
        Scrub: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            began_ms: number;
            /** Format: int64 */
            bytes: number;
            /**
             * Format: int64
             * @description Number of damaged records and shards.
             */
            damaged: number;
            /** @description Whether all data was read and verified. */
            deep: boolean;
            /** Format: int64 */
            dropped: number;
            /** Format: int64 */
            healed_records: number;
            /** Format: int64 */
            healed_shards: number;
            /** Format: int64 */
            lost: number;
            /** Format: int64 */
            missing: number;
            /**
             * Format: int32
             * @description The node that did it; left out if the machine is alone.
             */
            node?: number | null;
            /** Format: int64 */
            orphans: number;
            /** Format: int64 */
            registers: number;
            /** Format: int64 */
            shards: number;
            /** Format: int64 */
            took_ms: number;
        };
        /** @description A node whose records were searched. */
        SearchedNode: {
            /**
             * Format: int32
             * @description 0 if the machine is alone.
             */
            node: number;
            /** @description Why it does not answer. A later page has its records, if it answers then. */
            problem?: string | null;
            /** @description True: it has no audit file, so that only its last refusals were searched. Null if it does not answer. */
            refusals_only?: boolean | null;
        };
        /** @description Temporary credentials. */
        Session: {
            access_key: string;
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            expires_ms: number;
            secret: string;
            token: string;
            user: string;
        };
        /** @description The stored values of a target. */
        Setting: {
            /**
             * Format: int64
             * @description When it was changed, in milliseconds since 1970.
             */
            changed_ms: number;
            subsystem: string;
            /** @description `_` for a subsystem with one target. */
            target: string;
            /** @description Values; `*redacted*` replaces a secret. */
            values: {
                [key: string]: string;
            };
        };
        /** @description The stored settings, and all subsystems. */
        SettingList: {
            /** @description Values that the environment of the answering node sets. They override stored values and cannot be changed here. */
            environment: components["schemas"]["EnvironmentSetting"][];
            settings: components["schemas"]["Setting"][];
            subsystems: components["schemas"]["Subsystem"][];
        };
        /** @description A setting of a subsystem. */
        SettingName: {
            help: string;
            name: string;
            /** @description Whether its value is never returned. */
            secret: boolean;
        };
        /** @description Names and values. Other values stay; an empty value is removed. */
        SettingOrder: {
            /** @default {} */
            values: {
                [key: string]: string;
            };
        };
        /** @description A removed setting. */
        SettingRemoved: {
            removed: boolean;
            subsystem: string;
            target: string;
        };
        /** @description A shard and its drive. */
        ShardPlacement: {
            /** @description The drive's id, hexadecimal digits. */
            drive: string;
            /** @description As in the list of drives. */
            drive_state: string;
            /** @description `data` or `parity`. */
            kind: string;
            /**
             * Format: int32
             * @description The node that has the drive; null if the machine is alone, or the node is not known.
             */
            node?: number | null;
            /** @description The drive's path; empty if it is not known. */
            path: string;
            problem?: string | null;
            /**
             * Format: int64
             * @description About when a full scrub verified it last, milliseconds since 1970; null if none did since it was written, or none is known.
             */
            scrubbed_ms?: number | null;
            /** Format: int32 */
            shard: number;
            /** @description `good`, `missing`, `damaged`, or `unknown` if the drive does not answer. */
            state: string;
        };
        /** @description What one drive has of a record. */
        Shown: {
            drive: string;
            path: string;
            /** @description `what is kept`, `another record`, `nothing` or `damage`. */
            shows: string;
        };
        /** @description The parameters that the provider sends back through the browser. */
        SignInBack: {
            code: string;
            /**
             * Format: int64
             * @description Lifetime of the session in seconds; 3600 by default.
             */
            duration_s?: number | null;
            state: string;
        };
        /** @description A provider for sign-in with a browser. */
        SignInChoice: {
            display_name: string;
            name: string;
            /** @description The address to send the browser to. */
            url: string;
        };
        /** @description The providers for sign-in with a browser. */
        SignInChoices: {
            providers: components["schemas"]["SignInChoice"][];
        };
        /** @description The result of a sign-in that was only tried: one of the three is there. */
        SignInTest: {
            identity?: null | components["schemas"]["TestedIdentity"];
            /** @description Why it was refused. */
            problem?: string | null;
            /** @description Where a browser has to go. */
            url?: string | null;
        };
        /** @description What to try. The members are those of one of the ways. */
        SignInTestOrder: {
            /**
             * @description What the browser brought back.
             * @default null
             */
            code: string | null;
            /**
             * @description The address of the console in the browser; the answer is where the browser has to go.
             * @default null
             */
            origin: string | null;
            /**
             * @description Its password.
             * @default null
             */
            password: string | null;
            /**
             * @description What the browser brought back.
             * @default null
             */
            state: string | null;
            /**
             * @description An id token.
             * @default null
             */
            token: string | null;
            /**
             * @description A name in the directory.
             * @default null
             */
            username: string | null;
        };
        /** @description A simulated authorization decision. */
        Simulated: {
            action: string;
            allowed: boolean;
            sid?: string | null;
            statements: components["schemas"]["Statement"][];
            why: string;
        };
        /** @description A request whose authorization decision is simulated. */
        Simulation: {
            /** @description For instance `s3:GetObject`. */
            action: string;
            /** @description A bucket, or a bucket, a slash and a key. */
            resource?: string;
            /** @description A user or an access key; empty for an anonymous request. */
            user: string;
        };
        /** @description How a statement contributes to the decision. */
        Statement: {
            applies: boolean;
            /** @description `Allow` or `Deny`. */
            effect: string;
            policy: string;
            sid?: string | null;
            /**
             * Format: int32
             * @description Number of the statement in its policy, from 0.
             */
            statement: number;
            why_not?: string | null;
        };
        /** @description The limits of healing, rebuild and scrub, and where they come from. */
        StoredHealLimits: components["schemas"]["HealLimits"] & {
            /** @description Those that an administrator stored for all nodes, by name; the others are options of the node that answers. */
            stored: string[];
        };
        /** @description Placement groups of which slots cannot move to another node. */
        StuckGroups: {
            /** Format: int64 */
            groups: number;
            why: string;
        };
        /** @description A subsystem with settings. */
        Subsystem: {
            help: string;
            name: string;
            names: components["schemas"]["SettingName"][];
            /** @description Whether there can be several targets. */
            several: boolean;
        };
        /** @description Somebody whose identity a provider has confirmed, and what they could do here. */
        TestedIdentity: {
            /** @description Whether they could sign in: only with a policy. */
            admitted: boolean;
            /** @description Attributes that policies can test as `ldap:*`. */
            attributes: {
                [key: string]: string[];
            };
            /** @description Policies that the claims name, whether they exist or not. */
            claimed_policies: string[];
            /** @description Claims that policies can test as `jwt:*`. */
            claims: {
                [key: string]: string[];
            };
            groups: string[];
            issuer: string;
            /** @description The name under which policies are attached. */
            name: string;
            /** @description The policies that would apply. */
            policies: string[];
            /** @description `openid/NAME` or `ldap/NAME`. */
            provider: string;
            /** @description The provider's name for them. */
            subject: string;
        };
        /** @description A token with which one node joins the cluster. It is shown this once. */
        Token: {
            /** @description When it expires. */
            expires: string;
            /** @description `ID.SECRET`. */
            token: string;
        };
        /** @description A new token. */
        TokenOrder: {
            /**
             * Format: int64
             * @description Seconds until it expires, 1 to 86400.
             * @default 3600
             */
            lifetime_s: number;
        };
        /** @description How much may be missing at once, by the erasure code and the places of the drives. */
        Tolerates: {
            /**
             * Format: int64
             * @description Any drives of a placement group, without an effect on reads and writes.
             */
            drives: number;
            /**
             * Format: int64
             * @description Any nodes, without an effect on reads and writes.
             */
            nodes: number;
            /**
             * Format: int64
             * @description Any drives of a placement group, without an effect on reads.
             */
            read_drives: number;
            /**
             * Format: int64
             * @description Any nodes, without an effect on reads.
             */
            read_nodes: number;
        };
        /** @description Totals of operations, and requests in progress. */
        Top: {
            /**
             * Format: int64
             * @description Number of requests in progress.
             */
            inflight: number;
            /** @description The nodes whose requests these are, and those that do not answer; left out if the machine is alone. */
            nodes?: components["schemas"]["NodeRequests"][] | null;
            operations: components["schemas"]["OperationTotals"][];
            running: components["schemas"]["RunningRequests"][];
            /** Format: int64 */
            uptime_s: number;
        };
        /** @description A request in the trace. `micros` = `body_micros` + `drives_micros` + `server_micros` + `answer_micros`. */
        TraceEvent: {
            access_key: string;
            /**
             * Format: int64
             * @description Time to send the body of the answer.
             */
            answer_micros: number;
            /**
             * Format: int64
             * @description The part of it spent waiting for the request body.
             */
            body_micros: number;
            /** Format: int64 */
            bytes_in: number;
            /** Format: int64 */
            bytes_out: number;
            /** @description Address and port. */
            client: string;
            /** @description Whether the answer was not sent completely. */
            cut: boolean;
            /**
             * Format: int64
             * @description The part of it spent waiting for drives.
             */
            drives_micros: number;
            /** @description The error code of the answer. */
            error: string;
            /**
             * Format: int64
             * @description Time to the head of the answer.
             */
            first_byte_micros: number;
            /** @description `s3` or `sts`; `cluster`: not a request, but what is wrong with a node, in `error`. */
            kind: string;
            method: string;
            /**
             * Format: int64
             * @description Time from the request head to the end of the answer.
             */
            micros: number;
            /**
             * Format: int32
             * @description The node that answered; left out if the machine is alone.
             */
            node?: number | null;
            operation: string;
            path: string;
            /** @description The query, without the signature. */
            query: string;
            request_id: string;
            /**
             * Format: int64
             * @description The rest of it.
             */
            server_micros: number;
            /** Format: int32 */
            status: number;
            /**
             * Format: int64
             * @description When it arrived, in milliseconds since 1970.
             */
            time_ms: number;
            user_agent: string;
        };
        /** @description A record that may not be the newest. */
        UncertainKey: {
            bucket: string;
            /** @description Whether a record was kept. */
            kept: boolean;
            key: string;
            /** @description `object`, `upload` or `part`. */
            kind: string;
            shown: components["schemas"]["Shown"][];
        };
        /** @description What became of the feature level. */
        Upgrade: {
            /**
             * Format: int32
             * @description The level in force now.
             */
            feature_level: number;
            /** @description Whether this request raised the level. */
            raised: boolean;
            /** @description Why the level is not raised: the nodes that cannot do the target. */
            reasons: string[];
            /**
             * Format: int32
             * @description The newest level that a node can do: the one that is to be in force.
             */
            target: number;
        };
        /** @description Raises the feature level. */
        UpgradeOrder: {
            /**
             * @description Only tell what would be done.
             * @default false
             */
            dry_run: boolean;
        };
        /** @description The usage of buckets. */
        UsageList: {
            buckets: components["schemas"]["BucketUsage"][];
            /**
             * Format: int64
             * @description Buckets that exist.
             */
            existing: number;
            /**
             * Format: int64
             * @description Buckets whose names match, on this page or not.
             */
            matching: number;
            /** @description Of all buckets. */
            total: components["schemas"]["UsageTotal"];
        };
        /** @description The usage of all buckets. */
        UsageTotal: {
            /**
             * Format: int64
             * @description Bytes of all versions, without parity.
             */
            bytes: number;
            /** @description False after a start, until every bucket has been counted. */
            complete: boolean;
            /** Format: int64 */
            delete_markers: number;
            /**
             * Format: int64
             * @description Keys whose current version is not a delete marker.
             */
            objects: number;
            /**
             * Format: int64
             * @description Versions, without delete markers.
             */
            versions: number;
        };
        /** @description A user. */
        User: {
            /** @description The canonical id, which access control lists and owners of objects use. */
            canonical_id?: string;
            /** Format: int64 */
            changed_ms: number;
            enabled: boolean;
            groups: string[];
            name: string;
            policies: string[];
            /** @description The secret; only in the answer to its creation. */
            secret?: string | null;
            /** Format: int64 */
            used_ms?: number | null;
        };
        /** @description All users. */
        UserList: {
            users: components["schemas"]["User"][];
        };
        /** @description The wanted state of a user. */
        UserOrder: {
            /** @default null */
            enabled: boolean | null;
            /**
             * @description Generated and returned if it is left out.
             * @default null
             */
            secret: string | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    AuditSearch: {
        parameters: {
            query?: {
                /** @description Requests that came at this time or later: RFC 3339, or a date. */
                since?: string;
                /** @description Requests that came before this time. */
                until?: string;
                /** @description Requests of this user, also with access keys and sessions of theirs. */
                user?: string;
                /** @description Requests signed with this access key. */
                access_key?: string;
                /** @description Requests about this bucket. */
                bucket?: string;
                /** @description Requests about keys, or names, that begin with this. */
                prefix?: string;
                /** @description Requests for this operation, such as GetObject. */
                operation?: string;
                /** @description Requests to this API. */
                api?: "s3" | "sts" | "admin";
                /** @description A status such as 403, a class such as 4xx, or a range such as 400-499. */
                status?: string;
                /** @description Answers with this error code. */
                error?: string;
                /** @description The client's address, or a network such as 10.0.0.0/8. */
                source?: string;
                /** @description The request with this id. */
                request_id?: string;
                /** @description Most records; 100 if left out. */
                limit?: number;
                /** @description Goes on where an earlier answer ended; with the same conditions. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditRecords"];
                };
            };
        };
    };
    ClusterStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cluster"];
                };
            };
        };
    };
    ClusterAuthority: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RotationOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rotation"];
                };
            };
        };
    };
    ClusterControlMembers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ControlMembersOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ControlMembers"];
                };
            };
        };
    };
    ClusterMayStop: {
        parameters: {
            query?: {
                /** @description Its number; if left out, the node that answers. */
                node?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MayStop"];
                };
            };
        };
    };
    ClusterRemove: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RemoveOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeRemoved"];
                };
            };
        };
    };
    ClusterToken: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TokenOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Token"];
                };
            };
        };
    };
    ClusterUpgrade: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UpgradeOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Upgrade"];
                };
            };
        };
    };
    DeadLetterList: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetterList"];
                };
            };
        };
    };
    DeadLetterRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetterCount"];
                };
            };
        };
    };
    DeadLetterReplay: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetterCount"];
                };
            };
        };
    };
    Drives: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DriveList"];
                };
            };
        };
    };
    DriveOffline: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DriveOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DriveList"];
                };
            };
        };
    };
    DriveOnline: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DriveOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DriveList"];
                };
            };
        };
    };
    DriveRecovery: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recovery"];
                };
            };
        };
    };
    DriveRecover: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RecoverOrder"];
            };
        };
        responses: {
            /** @description Done */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recovery"];
                };
            };
        };
    };
    DriveReplace: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DriveOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DriveList"];
                };
            };
        };
    };
    DriveScrub: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealStarted"];
                };
            };
        };
    };
    EventList: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventTargetList"];
                };
            };
        };
    };
    EventTest: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventTest"];
                };
            };
        };
    };
    GroupList: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupList"];
                };
            };
        };
    };
    GroupGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Group"];
                };
            };
        };
    };
    GroupRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Removed"];
                };
            };
        };
    };
    GroupDisable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Group"];
                };
            };
        };
    };
    GroupEnable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Group"];
                };
            };
        };
    };
    GroupMembers: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Members"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Group"];
                };
            };
        };
    };
    HealStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealStatus"];
                };
            };
        };
    };
    HealStart: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DriveOrder"];
            };
        };
        responses: {
            /** @description Done */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealStarted"];
                };
            };
        };
    };
    HealLimits: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoredHealLimits"];
                };
            };
        };
    };
    HealLimitsPut: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["HealLimitsOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoredHealLimits"];
                };
            };
        };
    };
    HealLimitsRemove: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoredHealLimits"];
                };
            };
        };
    };
    History: {
        parameters: {
            query?: {
                /** @description How many seconds; 3600 if left out. The steps become longer with it. */
                last_s?: number;
                /** @description In how many steps at most; 400 if left out. */
                steps?: number;
                /** @description Until when, in milliseconds since 1970; now if left out. */
                until_ms?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricsHistory"];
                };
            };
        };
    };
    IamExport: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityExport"];
                };
            };
        };
    };
    IamImport: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["IdentityExport"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Imported"];
                };
            };
        };
    };
    ProviderList: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                kind: "openid" | "ldap" | "tls";
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderList"];
                };
            };
        };
    };
    ProviderGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                kind: "openid" | "ldap" | "tls";
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Provider"];
                };
            };
        };
    };
    ProviderPut: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                kind: "openid" | "ldap" | "tls";
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ProviderOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Provider"];
                };
            };
        };
    };
    ProviderRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                kind: "openid" | "ldap" | "tls";
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderRemoved"];
                };
            };
        };
    };
    ProviderEdit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                kind: "openid" | "ldap" | "tls";
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ProviderOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Provider"];
                };
            };
        };
    };
    ProviderDisable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                kind: "openid" | "ldap" | "tls";
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Provider"];
                };
            };
        };
    };
    ProviderEnable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                kind: "openid" | "ldap" | "tls";
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Provider"];
                };
            };
        };
    };
    ProviderTest: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                kind: "openid" | "ldap" | "tls";
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignInTestOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignInTest"];
                };
            };
        };
    };
    Info: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Info"];
                };
            };
        };
    };
    KeyList: {
        parameters: {
            query?: {
                /** @description Whose; if left out, one's own. */
                user?: string;
                /** @description Everybody's. */
                all?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyList"];
                };
            };
        };
    };
    KeyCreate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["KeyOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Key"];
                };
            };
        };
    };
    KeyGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                access_key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Key"];
                };
            };
        };
    };
    KeyRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                access_key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyRemoved"];
                };
            };
        };
    };
    KeyEdit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                access_key: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["KeyPatch"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Key"];
                };
            };
        };
    };
    KmsKeyList: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EncryptionKeyList"];
                };
            };
        };
    };
    KmsKeyGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EncryptionKey"];
                };
            };
        };
    };
    KmsKeyCreate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EncryptionKey"];
                };
            };
        };
    };
    KmsKeyRotate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EncryptionKey"];
                };
            };
        };
    };
    RewrapStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rewrap"];
                };
            };
        };
    };
    RewrapStart: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RewrapOrder"];
            };
        };
        responses: {
            /** @description Done */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rewrap"];
                };
            };
        };
    };
    KmsStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EncryptionStatus"];
                };
            };
        };
    };
    LifecycleStatus: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                bucket: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LifecycleStatus"];
                };
            };
        };
    };
    LifecycleSimulate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                bucket: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["LifecycleSimulateOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LifecycleForecast"];
                };
            };
        };
    };
    LifecycleTest: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                bucket: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["LifecycleTestOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LifecycleTest"];
                };
            };
        };
    };
    SignInChoices: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignInChoices"];
                };
            };
        };
    };
    SignInBack: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignInBack"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
        };
    };
    Logs: {
        parameters: {
            query?: {
                /** @description How many of the last lines; 100 if left out. */
                last?: number;
                /** @description Go on with the lines to come. */
                follow?: boolean;
                /** @description Only lines of this level and above. */
                level?: "error" | "warn" | "info";
                /** @description The stream ends after so many seconds. */
                seconds?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": components["schemas"]["LogLine"];
                };
            };
        };
    };
    MappingList: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MappingList"];
                };
            };
        };
    };
    MetricsToken: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricsToken"];
                };
            };
        };
    };
    Document: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenApi"];
                };
            };
        };
    };
    Permissions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PermissionOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Permissions"];
                };
            };
        };
    };
    Placement: {
        parameters: {
            query?: {
                /** @description The version; the current one if left out. */
                version_id?: string;
                /** @description Read and compare every byte. */
                verify?: boolean;
                /** @description From this part on. */
                part?: number;
            };
            header?: never;
            path: {
                /** @description BUCKET/KEY. */
                object: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ObjectPlacement"];
                };
            };
        };
    };
    PlacementHeal: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description BUCKET/KEY. */
                object: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ObjectHealed"];
                };
            };
        };
    };
    PolicyList: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyList"];
                };
            };
        };
    };
    PolicyAttach: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Association"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Associated"];
                };
            };
        };
    };
    PolicyDetach: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Association"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Associated"];
                };
            };
        };
    };
    PolicyGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamedPolicy"];
                };
            };
        };
    };
    PolicyPut: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PolicyDocument"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamedPolicy"];
                };
            };
        };
    };
    PolicyRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Removed"];
                };
            };
        };
    };
    QuotaGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                bucket: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BucketQuota"];
                };
            };
        };
    };
    QuotaPut: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                bucket: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["QuotaOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BucketQuota"];
                };
            };
        };
    };
    QuotaRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                bucket: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BucketQuota"];
                };
            };
        };
    };
    ServiceRestart: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EndOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ending"];
                };
            };
            /** @description Done */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ending"];
                };
            };
        };
    };
    ServiceStop: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EndOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ending"];
                };
            };
            /** @description Done */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ending"];
                };
            };
        };
    };
    SettingList: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingList"];
                };
            };
        };
    };
    SettingGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                subsystem: "identity_openid" | "identity_ldap" | "identity_tls" | "heal" | "notify_webhook" | "notify_kafka" | "notify_nats" | "notify_amqp" | "notify_mqtt" | "notify_redis" | "notify_postgres" | "notify_mysql" | "notify_elasticsearch" | "notify_nsq";
                /** @description `_` where there is only one. */
                target: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Setting"];
                };
            };
        };
    };
    SettingPut: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                subsystem: "identity_openid" | "identity_ldap" | "identity_tls" | "heal" | "notify_webhook" | "notify_kafka" | "notify_nats" | "notify_amqp" | "notify_mqtt" | "notify_redis" | "notify_postgres" | "notify_mysql" | "notify_elasticsearch" | "notify_nsq";
                /** @description `_` where there is only one. */
                target: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SettingOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Setting"];
                };
            };
        };
    };
    SettingRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                subsystem: "identity_openid" | "identity_ldap" | "identity_tls" | "heal" | "notify_webhook" | "notify_kafka" | "notify_nats" | "notify_amqp" | "notify_mqtt" | "notify_redis" | "notify_postgres" | "notify_mysql" | "notify_elasticsearch" | "notify_nsq";
                /** @description `_` where there is only one. */
                target: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingRemoved"];
                };
            };
        };
    };
    Simulate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Simulation"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Simulated"];
                };
            };
        };
    };
    Top: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Top"];
                };
            };
        };
    };
    Trace: {
        parameters: {
            query?: {
                /** @description Only answers with a status of 400 and above. */
                errors?: boolean;
                /** @description Only requests that took at least this long. */
                slower_ms?: number;
                /** @description Only requests about this bucket. */
                bucket?: string;
                /** @description Only this operation. */
                operation?: string;
                /** @description The stream ends after so many seconds. */
                seconds?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": components["schemas"]["TraceEvent"];
                };
            };
        };
    };
    UsageList: {
        parameters: {
            query?: {
                /** @description Only buckets whose name contains this. */
                contains?: string;
                /** @description The order; by name if left out. Equal ones are in order of their names. */
                sort?: "name" | "objects" | "bytes" | "created";
                /** @description The order is reversed. */
                descending?: boolean;
                /** @description At most so many buckets; all if left out. */
                limit?: number;
                /** @description Without so many buckets at the beginning. */
                offset?: number;
                /** @description Without `sizes` and `version_counts`, which are then empty. */
                brief?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageList"];
                };
            };
        };
    };
    UsageGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                bucket: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BucketUsage"];
                };
            };
        };
    };
    UserList: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserList"];
                };
            };
        };
    };
    UserGet: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    UserPut: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UserOrder"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    UserRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Removed"];
                };
            };
        };
    };
    UserDisable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    UserEnable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    UserRevoke: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    Why: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description It may hold slashes. */
                request_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RequestRecord"];
                };
            };
        };
    };
}
